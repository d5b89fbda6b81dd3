"""The parts of the profile language that `compiler.language.schema` puts together."""
