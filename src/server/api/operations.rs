//! What can be asked of the API, and what is answered: the rows that `/openapi.json` is made from.

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{
    events::EventsQuery,
    gate::{ClosedGate, GateQuery, GateView},
    history::{HistoryQuery, HistoryView},
    object::ObjectView,
    problem::ProblemView,
    query::ResourceQuery,
    rules::RulesView,
    status::StatusView,
    view::{ListView, ResourceView},
};

/// Makes a schema, and whatever else it needs.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// One method of one path.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) path: &'static str,
    pub(super) method: &'static str,
    /// Its name, by which generated clients call it.
    pub(super) id: &'static str,
    /// What it is good for, in a sentence.
    pub(super) summary: &'static str,
    /// What may stand in the query.
    pub(super) query: Option<SchemaOf>,
    /// Parameters of the query that have to be there.
    pub(super) required: &'static [&'static str],
    /// What the body is.
    pub(super) body: Option<SchemaOf>,
    /// Headers that change the answer.
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) answers: &'static [Answer],
}

/// One answer that may be given.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) meaning: &'static str,
    pub(super) content: Content,
}

/// What is in the body of an answer.
#[derive(Debug)]
pub(super) enum Content {
    Nothing,
    Json(SchemaOf),
    Problem(SchemaOf),
    Events,
}

/// What every operation begins with.
const ASKING: Operation = Operation {
    path: "",
    method: "get",
    id: "",
    summary: "",
    query: None,
    required: &[],
    body: None,
    headers: &[],
    answers: &[],
};

const IF_NONE_MATCH: (&str, &str) =
    ("If-None-Match", "An `ETag` of an earlier answer, which is not sent again if it still holds");

const UNCHANGED: Answer = Answer {
    status: 304,
    meaning: "Nothing has changed since the answer with this `ETag`",
    content: Content::Nothing,
};

/// What is answered where a list cannot even be begun.
const UNMADE: Answer = problem(500, "The answer could not be made");

/// Everything that can be asked.
pub(super) const OPERATIONS: &[Operation] = &[
    Operation {
        path: "/v1/resources",
        id: "listResources",
        summary: "The state of resources: what each source declares, what is there, and how they differ",
        query: Some(schema::<ResourceQuery>),
        required: &["namespace"],
        headers: &[IF_NONE_MATCH],
        answers: &[
            ok("The claims, in order", list),
            UNCHANGED,
            problem(400, "The question is not understood"),
            problem(403, "The namespace may not be asked for"),
            UNMADE,
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/resources",
        method: "post",
        id: "queryResources",
        summary: "The same, with the question as JSON",
        body: Some(schema::<ResourceQuery>),
        answers: &[
            ok("The claims, in order", list),
            problem(400, "The question is not understood"),
            problem(403, "The namespace may not be asked for"),
            problem(413, "The body is too long for a question"),
            problem(415, "The body is not JSON"),
            UNMADE,
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/resources/{kind}/{namespace}/{name}",
        id: "explainObject",
        summary: "One object, explained: all claims, differences, owners, rules, what is ignored and why, history",
        headers: &[IF_NONE_MATCH],
        answers: &[
            ok("The object", schema::<ObjectView<'_>>),
            UNCHANGED,
            problem(400, "The question is not understood"),
            problem(404, "No such object is watched or declared"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/history",
        id: "listTransitions",
        summary: "What moved from one verdict to another, newest first",
        query: Some(schema::<HistoryQuery>),
        answers: &[
            ok("The transitions", schema::<HistoryView<'_>>),
            problem(400, "The question is not understood"),
            problem(403, "The namespace may not be asked for"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/events",
        id: "listen",
        summary: "Transitions as they happen, as Server-Sent Events",
        query: Some(schema::<EventsQuery>),
        headers: &[("Last-Event-ID", "The sequence number of the last transition that the client has seen")],
        answers: &[
            Answer { status: 200, meaning: "Events until the client goes", content: Content::Events },
            problem(400, "The question is not understood"),
            problem(503, "Too many listen already"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/rules",
        id: "listRules",
        summary: "The rules that hold, and how many differences each of them matches",
        answers: &[
            ok("The rules, in their order", schema::<RulesView<'_>>),
            problem(400, "The question is not understood"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/gate",
        id: "askGate",
        summary: "Whether a pipeline may go on: nothing has drifted, and nothing is unknown",
        query: Some(schema::<GateQuery>),
        answers: &[
            ok("It may", schema::<GateView>),
            problem(400, "The question is not understood"),
            problem(403, "The namespace may not be asked for"),
            Answer {
                status: 409,
                meaning: "It may not, and why",
                content: Content::Problem(schema::<ClosedGate>),
            },
            problem(503, "Not everything was looked at yet"),
        ],
        ..ASKING
    },
    Operation {
        path: "/v1/status",
        id: "showStatus",
        summary: "How the exporter itself fares: settings, streams, sources, baselines",
        answers: &[
            ok("The status", schema::<StatusView<'_>>),
            problem(400, "The question is not understood"),
        ],
        ..ASKING
    },
];

/// What is answered to those who have to prove who they are, with a password or a token.
pub(super) const DENIED: Answer = problem(401, "The credentials are missing or not good");

/// What is answered to those whose token is good, where it says nothing else of these.
pub(super) const DENIED_TO_ACCOUNTS: &[Answer] = &[
    problem(403, "The account may not ask for this path, or list anything that it asks for"),
    problem(503, "The API server does not say who may ask for what"),
];

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// Whole resources, unless `fields` names some of their fields.
fn list(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<ListView<'_, Vec<ResourceView<'_>>>>()
}

const fn ok(meaning: &'static str, schema: SchemaOf) -> Answer {
    Answer { status: 200, meaning, content: Content::Json(schema) }
}

const fn problem(status: u16, meaning: &'static str) -> Answer {
    Answer { status, meaning, content: Content::Problem(schema::<ProblemView>) }
}
