"""The parts of the profile language that `compiler.schema` puts together."""
