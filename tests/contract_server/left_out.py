"""Where the contract server answers otherwise than the real one, and what it does not serve, with reasons."""

# Cases of the recorded questions whose status or code is another one.
LEFT_OUT = {
    "upload yaml with a syntax error": (
        "the real server never answers and keeps a core busy; this one answers 500 at once and notes it in "
        "`Server.hangs`, so that a test can see that it was never asked"
    ),
}

_ORDER = "things of one second are listed by their random ids"
_AGENT = "a report by the real persistence agent came in between"

# Cases of which status and code are the same, and more of the answer is not.
OTHER_WORDS = {
    "healthz raw": "it says what it is",
    "list runs filter state": _ORDER,
    "list runs filter storage_state": _ORDER,
    "list runs filter created_at": _ORDER,
    "list runs filter experiment_id": _ORDER,
    "list runs namespace in single-user": _ORDER,
    "list runs sort by created_at desc": _ORDER,
    "list_recurring_runs filter by name": _ORDER,
    "list recurring filter key name": _ORDER,
    "list recurring namespace in single-user": _ORDER,
    "get run of the deleted experiment": _AGENT,
}

# What no recorded question asks and our client does not use, or what could not be recorded.
NOT_SERVED = {
    "archives (.zip, .tar.gz) in uploads": "packages are sent as YAML",
    "pipelines from an address": "packages are sent as files",
    "workflows of Argo as pipelines": "packages are Kubeflow's own",
    "API v1beta1": "the client speaks v2beta1",
    "artifacts, visualizations, reports, auth": "the client does not ask for them",
    "changes of pipelines (PATCH)": "a version is never changed, another one is uploaded",
    "the time at which a schedule is due": "a test says when with `Server.tick`",
    "protos older than those installed": "of settings that came later only those of `pipelines._SINCE` are refused",
    "logs": "the client reads pods",
    "details of tasks, several users": "no pods ran where the answers were recorded, and there was one user: "
    "these follow the published API and reports of users",
}
