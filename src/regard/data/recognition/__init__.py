"""What a stranger's tables hold, from their content: header, kinds of columns, roles, splits."""
