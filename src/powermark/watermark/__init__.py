"""From a plan to marked text: keys, green lists, specs, bias."""
