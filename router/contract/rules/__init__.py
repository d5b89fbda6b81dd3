"""The contract at work: the compiled rules, the plan of a request and how each rule is evaluated."""
