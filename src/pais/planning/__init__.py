"""Everything that is decided before a row is read: settings, facts, surveys, plans."""
