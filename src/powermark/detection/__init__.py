"""From tokens to evidence: which tokens count, how unlikely their colours are, what that means."""
