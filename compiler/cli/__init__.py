"""The command line: arguments, commands, output, completion and exit codes."""
