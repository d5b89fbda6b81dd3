"""What `--help` teaches by example, for the program and for each of its commands; each line can be run."""

from typing import Final

OVERVIEW: Final = """\
examples:
  profilec demo moonshot-kimi                    show a contract at work
  profilec presets                               which presets there are
  profilec init my-kimi --preset moonshot-kimi   make a deployment folder, ready to commit
  profilec build ./profile.yaml -o profile.json  compile a profile of yours
  profilec check ./profile.yaml                  tell everything that is wrong with it, and what is hardly meant
  profilec print ./profile.yaml --origin         show what it says once `extends` is resolved, and where
  profilec diff profile.json ./profile.yaml      say what the next build changes for clients
  profilec explain request.json ./profile.yaml   say what the router would do with a request
  profilec verify --through-engine ./profile.yaml  show that the router keeps it, check by check
  profilec probe https://api.example.com/v1 --model m -o draft.yaml  learn a contract from an endpoint

  eval "$(profilec --print-completion bash)"     complete commands, presets and files with the Tab key
"""

EXAMPLES: Final = {
    "build": """\
examples:
  profilec build ./profile.yaml -o profile.json  compile a profile of yours
  profilec build moonshot-kimi                   show the artifact of a preset
  profilec build moonshot-kimi --override-sampling-params '{"top_p": 0.95}'  with another sampling contract
""",
    "print": """\
examples:
  profilec print moonshot-kimi                   show what a preset says
  profilec print ./profile.yaml --origin         show what a profile says, and which file and line says it
  profilec print profile.json                    show an artifact as a profile
""",
    "check": """\
examples:
  profilec check ./profile.yaml                  all errors and warnings at once
  profilec check --artifact profile.json ./profile.yaml  is the artifact what the profile gives today?
  profilec check --artifact profile.json ./profile.yaml --format github --strict  the line for CI
  profilec check --artifact profile.json         would a router load it? where no profile is at hand
""",
    "demo": """\
examples:
  profilec demo moonshot-kimi                    in front of the stand-in engine that the demo brings
  profilec demo ./profile.yaml --keep            and leave the router up, to try it by hand
  profilec demo ./profile.yaml --engine http://127.0.0.1:30000  in front of an engine of yours
""",
    "explain": """\
examples:
  profilec explain request.json ./profile.yaml   each rule with its verdict
  profilec explain yesterday.jsonl profile.json  how many requests of many would be refused, and by which rule
  echo '{"model": "m", "messages": []}' | profilec explain - moonshot-kimi  a request from standard input
""",
    "diff": """\
examples:
  profilec diff profile.json ./profile.yaml      what the next build changes
  profilec diff old.json new.json --fail-on tighter                fails when clients lose something
  profilec diff old.json new.json --format markdown -o comment.md  for a pull request
  profilec diff profile.json ./profile.yaml --model kimi-k3        what changes for one model
  profilec diff profile.json ./profile.yaml --observable           what a client can tell, who sees only answers
""",
    "verify": """\
examples:
  profilec verify --through-engine moonshot-kimi our own router, and what its engine gets
  profilec verify http://127.0.0.1:8080 moonshot-kimi --model my-model  any endpoint that speaks OpenAI's API
  profilec verify http://127.0.0.1:8080 moonshot-kimi --model my-model --format html -o report.html  as a page
  profilec verify https://api.example.com/v1 ./profile.yaml --model m --api-key-env EXAMPLE_KEY --rps 2  a live API
""",
    "probe": """\
examples:
  profilec probe http://127.0.0.1:8080 --model my-model -o draft.yaml  an engine, or a router, of yours
  profilec probe https://api.example.com/v1 --model m --api-key-env EXAMPLE_KEY --rps 2 -o draft.yaml  a live API
  profilec probe https://api.example.com/v1 --model m --record answers.jsonl -o draft.yaml  to be resumed
  profilec probe https://api.example.com/v1 --model m --only fields.temperature  one field, on standard output
""",
    "presets": """\
examples:
  profilec presets                               list them
  profilec print moonshot-kimi                   show what one of them says
""",
    "init": """\
examples:
  profilec init my-kimi --preset moonshot-kimi   a folder whose profile extends a preset
  profilec init .                                in this folder, on the preset that enforces nothing
""",
    "schema": """\
examples:
  profilec schema -o profile.schema.json         beside your profiles, which name it in their first line:
                                                 # yaml-language-server: $schema=./profile.schema.json
""",
}
