"""How property tests run here."""

from hypothesis import settings

# A busy machine is no failure.
settings.register_profile("contract", deadline=None, print_blob=True)
settings.load_profile("contract")
