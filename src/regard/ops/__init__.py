"""Operations: each with a readable reference in torch and, where it exists, a fast kernel."""
