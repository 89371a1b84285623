"""What the repository needs besides the package: the documentation site, and the check of a release."""
