"""The epilogs of `--help` for the program and each command: examples, each of which can be run, and details."""

from typing import Final

OVERVIEW: Final = """\
examples:
  profilec demo moonshot-kimi                    show a contract at work
  profilec presets                               which presets there are
  profilec init my-kimi --preset moonshot-kimi   make a deployment folder, ready to commit
  profilec build ./profile.yaml -o profile.json  compile a profile of yours
  profilec serve profile.json --engine http://127.0.0.1:30000  run the router in front of an engine
  profilec check ./profile.yaml                  list its errors and warnings
  profilec print ./profile.yaml --origin         show what it says once `extends` is resolved, and where
  profilec diff profile.json ./profile.yaml      list what the next build changes for clients
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
  profilec check --artifact profile.json ./profile.yaml  is the artifact up to date with the profile?
  profilec check --artifact profile.json ./profile.yaml --format github --strict  the line for CI
  profilec check --artifact profile.json         would a router load it? without a profile
""",
    "demo": """\
examples:
  profilec demo moonshot-kimi                    in front of the mock engine
  profilec demo ./profile.yaml --keep            and keep the router running, to try it by hand
  profilec demo ./profile.yaml --engine http://127.0.0.1:30000  in front of an engine of yours
""",
    "serve": """\
examples:
  profilec serve profile.json --engine http://127.0.0.1:30000  in front of an engine, on http://127.0.0.1:8000
  profilec serve profile.json --engine http://10.0.0.1:30000 --engine http://10.0.0.2:30000 --workers 4
  profilec serve ./profile.yaml --reload         while you write a profile: with a mock engine
  profilec serve moonshot-kimi --port 9000       a preset, to try it
""",
    "explain": """\
examples:
  profilec explain request.json ./profile.yaml   each rule with its verdict
  profilec explain yesterday.jsonl profile.json  how many requests would be rejected, and by which rule
  profilec explain yesterday.jsonl profile.json --fail-on-rejected  a guard before a rollout: exit code 1
  echo '{"model": "m", "messages": []}' | profilec explain - moonshot-kimi  a request from standard input
""",
    "diff": """\
examples:
  profilec diff profile.json ./profile.yaml      what the next build changes
  git show HEAD:profile.json | profilec diff - profile.json        what changed since the last commit
  profilec diff old.json new.json --fail-on tighter                fails when clients lose something
  profilec diff old.json new.json --format markdown -o comment.md  for a pull request
  profilec diff profile.json ./profile.yaml --model kimi-k3        what changes for one model
  profilec diff profile.json ./profile.yaml --observable           what a client can see in responses
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
  profilec probe https://api.example.com/v1 --model m --record responses.jsonl -o draft.yaml  to be resumed
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

SELECTION: Final = """\
SOURCE is a preset, a path that holds a / or ends in .yaml or .yml, or an artifact ending in .json. Standard input (-)
and pipes, as in <(git show HEAD:profile.json), are artifacts or profiles by what they hold.
When no profile is named, the first of these that is set is taken: the environment variable
SGLANG_ROUTER_API_PROFILE (a path or a preset), the file /etc/sgl-router/profile.yaml, ./profile.yaml or
./profile.yml, the preset openai-compatible, which enforces nothing. A line on standard error says which.
"""

DIFF: Final = """\
Each change is tighter (requests that passed are rejected, or the budget they ask for is lowered), looser (the reverse)
or other. One that is tighter and looser at once, as a band that was shifted, counts for --fail-on tighter and for
--fail-on looser; one that is neither, as another value to inject, only for --fail-on any.

With --observable requests are derived from both sides, at and around each edge of every rule in every mode and case,
and what the router decides under either is compared: the status and body of rejections, and the name in responses.
What an engine gets or returns, how a stream reports its usage and the source of a rule do not count, nor do messages of
the router that no profile sets; two ways to write the same are equal. Nothing is sent anywhere.

exit code: 0 when there is no such change, 1 when there is; also 1, and nothing is written, when A or B is wrong.
"""

SERVE: Final = """\
The process becomes gunicorn with the router's conf, as by `gunicorn -c python:router.gunicorn_conf` with ROUTER_PROFILE
and ROUTER_ENGINES set: its process id stays, and signals reach it (TERM stops, HUP reloads). All other settings are
those of the router, ROUTER_* in the environment; options win over them. Where PORT is set and neither --host nor --port
is given, it listens on that port of all addresses. Without --engine and ROUTER_ENGINES a mock engine is started,
and ends with the router. A profile is compiled first; in production, serve a built artifact. Where no SOURCE is named
and ROUTER_PROFILE is set, that artifact is served.

exit code: 1 when the profile, the artifact or a setting is wrong; once the router has begun, that of gunicorn, which is
0 when it was stopped by a signal.
"""

VERIFY: Final = """\
Every check is derived from the contract: each rule at and around each of its edges, in every mode and case. What an
endpoint does with a request can be seen in its response; what its engine gets cannot, and counts as not observable.

exit code: 0 when no check fails, 1 when one does, or when the endpoint cannot be reached.
"""

PROBE: Final = """\
Each request changes one thing in a request that is known to succeed, with an output budget of one token if that is
accepted. At most 2000 requests are sent, repetitions included (--max-requests), with bodies of up to 32 MiB
(--max-body). What could not be tested, or not be seen from outside, is listed at the top of the draft.

exit code: 0 when the draft is written, 1 when the endpoint cannot be reached or accepts no request at all.
"""
