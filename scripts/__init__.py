"""What is run by people who build Carrel."""
