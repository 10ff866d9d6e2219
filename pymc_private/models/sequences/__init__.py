"""Records that several factor rows read: windows, and what a record and its neighbors do there."""


