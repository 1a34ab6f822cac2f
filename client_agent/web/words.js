// Every word the page says, in one place: a translation is another file with the same keys. What comes from the daemon
// (facts about a call, error messages, names) is shown as it is.

const many = (count, one, more) => `${count.toLocaleString()} ${count === 1 ? one : more}`;
const pad = (number) => String(number).padStart(2, "0");

export const words = {
  title: "client-agent",
  skip: "Skip to the content",
  views: { label: "Views", questions: "Questions", activity: "Activity", rules: "Rules", grants: "Grants" },
  close: "Close",
  cancel: "Cancel",

  enter: {
    opening: "Opening…",
    noTicket: "This page opens with a ticket. Run “client-agent ui” in a terminal.",
    badTicket: "This link was used before, or is too old. Run “client-agent ui” again.",
    failed: "The daemon does not answer. Is it running? “client-agent status” says so.",
  },

  link: {
    label: "Connections",
    states: {
      connecting: "connecting", connected: "connected", retrying: "not connected, trying again", unauthorized: "token not accepted",
      forbidden: "not allowed in this project", "no such project": "no such project", "not an event stream": "something else answers there",
      redirected: "redirected elsewhere, not followed", "stopped by server": "stopped by the server", closed: "closed",
    },
    one: (name, state) => `${name}: ${state}`,
    several: (good, all) => `${good} of ${all} connected`,
    server: "server", directory: "directory", since: "since", detail: "detail", retryAt: "next try", heard: "last heard",
    undelivered: "results not delivered yet", open: "calls open",
    lost: "The daemon does not answer. It may have stopped. This page tries again by itself.",
    noKey: "This tab has no key. Run “client-agent ui” to open the page anew.",
    impostor: "Something else answers at this address: it is not the daemon. Close this tab, and run “client-agent ui”.",
    journal: (trouble) => `Nothing can be recorded, so nothing runs: ${trouble}`,
    dead: (count) => `${many(count, "result was", "results were")} not taken by the server for good: “client-agent outbox” shows them.`,
  },

  pause: {
    text: (workspace, what) => `A session in ${workspace} is paused: you refused ${what} three times in a row. Nothing more is asked.`,
    resume: "Let it ask again",
    stop: "Pause it", goOn: "Let it go on", short: ", paused",
    paused: (note) => (note ? `Paused: ${note}` : "Paused: nothing is run or asked."),
  },

  settings: {
    title: "The changed configuration allows more",
    hint: "What it tightens is in force. The rest waits for your word:",
    confirm: "Put it in force", decline: "Decline",
    declined: "You declined a change of the configuration. It is still in the file.",
    problem: (problem) => `The configuration cannot be used, so the last good one stays in force: ${problem}`,
    waits: "The configuration was changed to allow more, and waits for your word.",
  },

  tools: { write_file: "Write", read_file: "Read", list_directory: "List", execute_command: "Run", file_upload: "Take in", file_download: "Give out",
    file_semantic_search: "Search for", sys_monitor: "Look at the system" },
  unknownTool: "Use",

  question: {
    none: "Nothing to answer.",
    noneHint: "Questions appear here as agents ask for something that needs your word.",
    place: (workspace, root) => (root ? `in ${workspace} (${root})` : `in ${workspace}`),
    session: (session) => `session ${session}`,
    noSession: "no session",
    tool: (tool, server) => (server ? `${tool} of ${server}` : `${tool}, a tool this daemon does not know`),
    timeLeft: "time left",
    left: (seconds) => (seconds >= 3600 ? `${Math.floor(seconds / 3600)}:${pad(Math.floor(seconds / 60) % 60)} h left` : seconds >= 60 ? `${Math.floor(seconds / 60)}:${pad(seconds % 60)} left` : `${seconds} s left`),
    again: "You said yes, but since you were asked something has changed: look again.",
    binding: (digest) => `bound to ${digest}`,
    bindingHint: "Your answer holds for exactly this: tool, parameters, change, risk, access, sandbox and rules. Other places show the same.",
    harm: "This can do real harm. Allow it only if you know why the agent wants it.",
    gets: "What it gets",
    network: "reaches the network", noNetwork: "no network", writes: "writes in the workspace", readsOnly: "writes nothing",
    why: "Why you are asked",
    parameters: "Parameters",
    change: "Change",
    changeLabel: "What would change",
    lines: "lines",
    notWhole: (count) => `${many(count, "line is", "lines are")} not shown in full.`,
    showWhole: "Show all of it",
    once: "Allow once",
    ofClass: (name) => `Allow every “${name}”`,
    everything: "Allow everything",
    holdsFor: "of this session, for",
    lifetimes: { "": "8 hours at most", 3600: "1 hour", 900: "15 minutes" },
    heldFor: (lifetime) => `A yes to more than this call holds for ${lifetime}.`,
    refuse: "Refuse",
    reason: "Reason for a no",
    reasonHint: "Why not? The agent is told.",
    sure: {
      title: "Everything?",
      text: (session, lifetime) => `For ${lifetime}, or until session ${session} ends, all that it asks for will run unasked: HIGH risk too, network too. ` +
        "Only hard refusals still hold. Grants shows it, and ends it.",
      yes: "Allow everything", no: "Back",
    },
    opened: (risk, headline) => `New question, ${risk} risk: ${headline}`,
    waiting: (count) => `${many(count, "question waits", "questions wait")} for an answer.`,
    closed: (headline, outcome, by) => `${headline}: ${outcome}${by ? ` (${by})` : ""}`,
    outcomes: { approved: "allowed", rejected: "refused", timed_out: "time is over", withdrawn: "withdrawn", nobody: "nobody was there" },
    others: (count) => `${count.toLocaleString()} more waiting`,
    more: (count) => `Show ${count.toLocaleString()} more`,
    refuseAll: (count) => `Refuse all ${count.toLocaleString()} of this session`,
    refuseAllSure: {
      title: "Refuse them all?",
      text: (count, session) => `All ${many(count, "open question", "open questions")} of session ${session} get a no. The agent is told not to try again.`,
      yes: "Refuse all", no: "Back",
    },
  },

  risk: { LOW: "LOW", MEDIUM: "MEDIUM", HIGH: "HIGH" },

  activity: {
    filters: "Filters", text: "Text", textHint: "path, command, id", outcome: "Outcome", risk: "Risk", tool: "Tool", workspace: "Workspace", all: "all",
    outcomes: { ran: "ran", failed: "failed", refused: "refused by policy", rejected: "refused by you", open: "open" },
    states: { COMPLETED: "ran", FAILED: "failed", REJECTED: "refused by you", TIMEOUT: "no answer in time", AWAITING_APPROVAL: "asks",
      APPROVED: "allowed", EXECUTING: "running", PENDING: "decided", refused: "refused by policy" },
    none: "No calls.", noneFiltered: "No call fits these filters.",
    older: "Show older calls",
    decision: "decision", facts: "facts", answeredBy: "answered by", rule: "rule", grant: "grant", failure: "failure", took: "took",
    ms: (value) => `${value < 100 ? value.toFixed(1) : Math.round(value).toLocaleString()} ms`,
    parameters: "parameters, masked", call: "call", workspaceName: "workspace", session: "session",
    output: "Output", live: "Output, as it comes", outputLabel: "What the command writes",
    outputLeftOut: (count) => `${many(count, "character is", "characters are")} left out here: too much at once.`,
  },

  undo: {
    begin: "Take it back…", title: "Take this write back?", yes: "Take it back", no: "Leave it",
    actions: { restore: (path) => `${path} gets the content it had before.`, remove: (path) => `${path} is removed: the call made it.`,
      create: (path) => `${path} is made again, with the content it had.` },
    done: (id) => `Taken back. That is a write of its own, ${id}, and can be taken back in turn.`,
    left: (count) => `${many(count, "line is", "lines are")} not shown in full: “client-agent undo” shows all of it.`,
  },

  plot: {
    kinds: { unasked: "ran unasked", allowed: "allowed by you", denied: "not allowed", refused: "refused by policy", open: "open" },
    spans: { 60: "last hour", 1440: "last day", 10080: "last week" },
    span: "Time shown",
    label: (span, sums) => `Calls of the ${span}: ${sums}`,
    part: (count, kind) => `${count.toLocaleString()} ${kind}`,
    bar: (time, count, kind) => `${time}: ${count.toLocaleString()} ${kind}`,
  },

  rules: {
    make: "Make a rule of it",
    hint: "The first rule that matches decides, from the highest priority down. Without a rule LOW calls run and all others ask. " +
      "No rule overrides a refusal. A change is in force for the next call.",
    presets: "Ready-made rules",
    none: "No rules yet.",
    priority: (value) => `priority ${value}`,
    runs: (risk) => `runs unasked up to ${risk}`, asks: "always asks",
    conditions: { server_id: "server", tool_name: "tool", tool_pattern: "tools", argument_pattern: "arguments" },
    everything: "everything",
    until: (moment) => `until ${moment}`,
    edit: "Edit", remove: "Delete", add: "Add a rule", save: "Save", create: "Add",
    formNew: "A new rule", formEdit: "Change the rule",
    does: "What it does", doesAsk: "always ask", doesRun: "run without asking", upTo: "Up to risk", priorityField: "Priority",
    fields: { server_id: ["Server", "filesystem, shell"], tool_name: ["Tool, exactly", "write_file"], tool_pattern: ["Tool, by pattern", "read_*"],
      argument_pattern: ["Path or command line", "src/** or git log ..."], note: ["Note", "a name for people"] },
    wide: "It matches everything: every call up to that risk would run unasked.",
    high: "HIGH risk calls would run unasked.",
    preview: (recorded, matches) => `Of the last ${many(recorded, "call", "calls")} it matches ${matches.toLocaleString()}`,
    tooRisky: (count) => `; ${count.toLocaleString()} of them are riskier than it approves, and would still ask`,
    others: (count) => `and ${many(count, "other", "others")}`,
    sure: { title: "Delete this rule?", text: (what) => `${what}. The next call is judged without it.`, yes: "Yes, delete", no: "Keep it" },
  },

  grants: {
    hint: "What you allowed beyond one call. A grant ends with its session, with the daemon, and at the latest after eight hours.",
    none: "Nothing is granted: every call that must be asked is asked.",
    everything: "Everything",
    upTo: (risk) => `up to ${risk}`,
    where: (session, workspace) => `session ${session} in ${workspace} · until `,
    revoke: "End it",
  },

  help: {
    open: "Keys", title: "Keys",
    keys: [["y", "allow once"], ["c", "allow this class for the session"], ["a", "allow everything for the session, after a warning"], ["n", "refuse"],
      ["r", "write a reason; Enter refuses with it"],
      ["t", "how long a yes to more than this call holds"], ["j", "next question"], ["k", "previous question"], ["1 – 4", "questions, activity, rules, grants"], ["?", "these keys"]],
    single: "Single keys answer and move",
    singleHint: "Off, every answer takes a click, or Tab and Enter.",
  },
};
