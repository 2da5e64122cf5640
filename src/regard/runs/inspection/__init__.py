"""One text through a trained model: attention weights and token losses."""
