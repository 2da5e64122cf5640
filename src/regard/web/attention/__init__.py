"""The attention workbench: a sentence, read by several kinds of attention under any mask."""
