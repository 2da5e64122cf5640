"""Operations: each with its readable reference in torch and, where there is one, a faster path."""
