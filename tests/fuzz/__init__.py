"""Broken inputs by the thousand: each is answered or refused in one sentence, at once."""
