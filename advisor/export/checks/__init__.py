"""From an empty machine to the plan's run: a checklist, and a script that checks a machine."""
