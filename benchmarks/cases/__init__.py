"""Cases: one small file each, or one for each family."""
