"""Runs that do not end normally: a failure of the environment, or not finished."""

from corpus.case import FAILED, INCOMPLETE, INFRA, LOOK, MEND, NO_CHANGES, Case, commit, edit, other, say, step, write

LIMIT = {
    "type": "rate_limit_event",
    "rate_limit_info": {"status": "rejected", "rateLimitType": "five_hour", "resetsAt": 4102444800},
}

CASES: tuple[Case, ...] = (
    other("it crashes at once", step("stop", 3), found=(INCOMPLETE,)),
    other("it crashes in its work", LOOK, MEND, step("stop", 1), found=(INCOMPLETE,)),
    other("a fault of its own", LOOK, step("crash", 11), found=(INCOMPLETE,)),
    other("it is killed", LOOK, MEND, step("crash", 9), found=(INCOMPLETE,)),
    other("it complains and goes", step("complain", "fatal: out of memory"), step("stop", 134), found=(INCOMPLETE,)),
    other("it says that it failed", LOOK, step("result", "I could not do it", is_error=True), found=(INCOMPLETE,)),
    other("too many turns", LOOK, step("result", "", subtype="error_max_turns", is_error=True), found=(INCOMPLETE,)),
    other("it goes without a word", step("stop", 0), found=(INCOMPLETE,)),
    other("it goes after its work, without a word", MEND, commit(), step("stop", 0), found=(INCOMPLETE,)),
    other(
        "it stops in the middle of a tool",
        LOOK,
        step("use", "Bash", command="make"),
        step("stop", 0),
        found=(INCOMPLETE,),
    ),
    other(
        "it asks a person",
        LOOK,
        write("@ARTIFACTS@/Q&A.md", "## Q: which sign?\n\nPlus or minus?\n"),
        found=(INCOMPLETE,),
    ),
    other(
        "it blocks its task",
        LOOK,
        step("bd", "update", "@TASK@", "--status", "blocked", "--notes", "'QUESTION: which sign?'"),
        found=(INCOMPLETE,),
    ),
    other(
        "its limit is reached",
        step("raw", LIMIT),
        step("result", "limit reached", is_error=True),
        found=(INFRA,),
        account="a2",
    ),
    other(
        "its limit is reached in its work",
        LOOK,
        MEND,
        step("raw", LIMIT),
        step("stop", 1),
        found=(INFRA,),
        account="a3",
    ),
    other(
        "the service is overloaded",
        step("synthetic", "API Error: 529 Overloaded", "overloaded_error"),
        step("result", "API Error: 529 Overloaded", is_error=True, api_error_status=529),
        found=(INFRA,),
        account="a4",
    ),
    other(
        "nobody is logged in",
        step("synthetic", "Invalid API key · Please run /login", "authentication_failed"),
        step("result", "Invalid API key · Please run /login", is_error=True, api_error_status=401),
        found=(INFRA,),
        account="a5",
    ),
    other(
        "too many requests",
        step("synthetic", "API Error: 429 rate_limit_error", "rate_limit"),
        step("result", "API Error: 429 rate_limit_error", is_error=True, api_error_status=429),
        found=(INFRA,),
        account="a6",
    ),
    other(
        "an honest failure", LOOK, edit("calc.py", "a - b", "b - a"), commit(), say("It still fails."), found=(FAILED,)
    ),
    other("an honest failure, uncommitted", edit("calc.py", "a - b", "a * b"), say("Not sure."), found=(FAILED,)),
    other("a judge that does not end", MEND, commit(), verify="kill -9 $$", found=(FAILED,)),
    other("a judge that is not there", MEND, commit(), verify="./nowhere.sh", found=(FAILED,)),
    other("a judge that is broken", MEND, commit(), verify="python3 -S -c 'raise SystemExit(2)'", found=(FAILED,)),
    other("nothing to do, in its words", LOOK, say("add is as it should be."), found=(FAILED, NO_CHANGES)),
)
