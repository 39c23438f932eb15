"""The stage ``distributed``: several processes against one."""
