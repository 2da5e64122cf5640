"""Classification of texts and pairs, by a head or by verbalizers."""
