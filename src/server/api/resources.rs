//! `GET` and `POST /v1/resources`.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts as _, Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderMap, Uri};
use jiff::Timestamp;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{sync::mpsc::Sender, task::yield_now};

use super::{
    drift_details::FieldLabelCache,
    parallel_body::{END_OF_BATCH, write_in_parallel},
    params::{NoParams, Params, check_namespace, parse_body},
    response::{ETag, Problem},
    service_endpoints::ServiceEndpoints,
    view::{KindView, ListView, ResourceView, ViewContext},
};
use crate::{
    config::Settings,
    engine::{ClaimEntry, Snapshot},
    server::{
        Exposed,
        auth::{BodyNamespace, Caller},
        query::{Filter, Page, Sort, SortKey, TerraformJobs},
        redaction::ValueRedactor,
    },
};

const BATCH_SIZE: usize = 32;
/// A chunk is sent once it is at least this long. A batch of drifted claims mostly fits.
const CHUNK_SIZE: usize = 72 << 10;

// The documentation of the fields is the description of the parameters in `/openapi.json`.
/// What to look for.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::server) struct ResourceQuery {
    /// The namespace; `*` for every one that is watched.
    namespace: Option<String>,
    /// Kind, plural, or either with `.group`: `deployment`, `deployments.apps`.
    resource_type: Option<String>,
    /// Exact name.
    resource_name: Option<String>,
    /// The Terraform address, the Helm release, else the label `app.kubernetes.io/instance`, else the uid.
    deployment_id: Option<String>,
    /// At most so many; without it all.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
    /// Leaves out so many at the beginning.
    offset: Option<usize>,
    /// `name` (the usual), `type`, `verdict`, `onset` or `severity`; with `-` in front downwards.
    #[schemars(regex(pattern = "^-?(name|type|verdict|onset|severity)$"))]
    sort: Option<String>,
    /// Only these fields of each, with commas between them.
    fields: Option<String>,
}

/// A valid [`ResourceQuery`].
struct ListRequest {
    /// As the caller wrote it; `*` for all.
    namespace: String,
    filter: Filter,
    sort: Sort,
    page: Page,
    fields: Option<Vec<String>>,
}

pub(in crate::server) async fn resources(
    State(exposed): State<Arc<Exposed>>,
    caller: Caller,
    Params(query): Params<ResourceQuery>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let (settings, snapshot) = (exposed.settings(), caller.snapshot().await);
    let etag = ETag::new(&exposed, &caller, &snapshot, settings.prices.as_ref(), &uri);
    etag.respond(&headers, async {
        match ListRequest::new(query, &exposed, &caller) {
            Ok(request) => list(request, &exposed, &caller, settings, snapshot).await,
            Err(problem) => problem.into_response(),
        }
    })
    .await
}

pub(in crate::server) async fn post_resources(
    State(exposed): State<Arc<Exposed>>,
    _: Params<NoParams>,
    request: Request,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let query: ResourceQuery = parse_body(&parts.headers, body).await?;
    // The caller is authorized for the namespace in the body as for one in the URL.
    parts.extensions.insert(BodyNamespace(query.namespace.clone().unwrap_or_default()));
    let caller = Caller::from_request_parts(&mut parts, &exposed).await?;
    let (settings, snapshot) = (exposed.settings(), caller.snapshot().await);
    let request = ListRequest::new(query, &exposed, &caller)?;
    Ok(list(request, &exposed, &caller, settings, snapshot).await)
}

impl ListRequest {
    fn new(query: ResourceQuery, exposed: &Exposed, caller: &Caller) -> Result<Self, Problem> {
        // Forms send empty strings for fields that the user did not fill in.
        let absent_if_empty = |value: Option<String>| value.filter(|value| !value.is_empty());
        let missing = || Problem::bad_request("`namespace` is required; `*` asks for every namespace");
        let namespace = absent_if_empty(query.namespace).ok_or_else(missing)?;
        check_namespace(&namespace, exposed)?;
        caller.check_namespace(&namespace)?;
        let sort = parse_sort(query.sort.as_deref().unwrap_or("name"))?;
        let fields = query.fields.as_deref().map(parse_fields).transpose()?;
        if query.limit == Some(0) {
            return Err(Problem::bad_request("`limit` is at least 1"));
        }
        let filter = Filter {
            kind: absent_if_empty(query.resource_type),
            namespace: Some(namespace.clone()).filter(|namespace| namespace != "*"),
            name: absent_if_empty(query.resource_name),
            deployment_id: absent_if_empty(query.deployment_id),
            ..Filter::default()
        };
        let page = Page { offset: query.offset.unwrap_or(0), limit: query.limit };
        Ok(Self { namespace, filter, sort, page, fields })
    }
}

fn parse_sort(text: &str) -> Result<Sort, Problem> {
    let (descending, name) = text.strip_prefix('-').map_or((false, text), |name| (true, name));
    let key = match name {
        "name" => SortKey::Id,
        "type" => SortKey::Kind,
        "verdict" => SortKey::Verdict,
        "onset" => SortKey::Onset,
        "severity" => SortKey::Severity,
        _ => {
            let detail =
                format!("cannot sort by `{name}`; there are name, type, verdict, onset and severity");
            return Err(Problem::bad_request(detail));
        }
    };
    Ok(Sort { key, descending })
}

/// The names of fields, which all have to exist.
fn parse_fields(fields: &str) -> Result<Vec<String>, Problem> {
    let written = SchemaSettings::default().for_serialize().into_generator();
    let schema = written.into_root_schema_for::<ResourceView<'_>>();
    let exists =
        |name: &str| schema.get("properties").is_some_and(|properties| properties.get(name).is_some());
    let mut names: Vec<&str> = fields.split(',').map(str::trim).filter(|field| !field.is_empty()).collect();
    names.sort_unstable();
    names.dedup();
    match names.iter().find(|name| !exists(name)) {
        Some(name) => {
            Err(Problem::bad_request(format!("there is no field `{name}`; /openapi.json lists all")))
        }
        None if names.is_empty() => Err(Problem::bad_request("`fields` names no field")),
        None => Ok(names.into_iter().map(str::to_owned).collect()),
    }
}

/// The body of a list response, and everything that its writers read.
struct ListBody {
    request: ListRequest,
    values: ValueRedactor,
    now: Timestamp,
    settings: Arc<Settings>,
    endpoints: ServiceEndpoints,
    jobs: TerraformJobs,
    /// The number of claims on all pages.
    total: usize,
    /// The claims on this page, each with the index of its kind in the snapshot.
    page: Vec<(usize, Arc<ClaimEntry>)>,
    /// Dropped last. The engine frees a replaced snapshot once no reader holds it; objects that this body still shared then would be
    /// freed on a thread that serves requests.
    snapshot: Arc<Snapshot>,
}

async fn list(
    request: ListRequest,
    exposed: &Exposed,
    caller: &Caller,
    settings: Arc<Settings>,
    snapshot: Arc<Snapshot>,
) -> Response {
    let (values, now) = (caller.values(), exposed.clock.now());
    let select = move || {
        let found = request.sort.sort(request.filter.claims(&snapshot));
        let total = found.len();
        let page: Vec<_> = request.page.of(&found).map(|row| (row.kind_index, row.entry.clone())).collect();
        drop(found);
        let namespace = request.filter.namespace.as_deref();
        let endpoints = ServiceEndpoints::new(&snapshot, namespace);
        let jobs = TerraformJobs::new(&snapshot, namespace);
        Arc::new(ListBody { request, values, now, settings, endpoints, jobs, total, page, snapshot })
    };
    let body = exposed.blocking.run(select).await;
    let batches = body.page.len().div_ceil(BATCH_SIZE).max(1);
    write_in_parallel(batches, |numbers, chunks| body.clone().write(batches, numbers, chunks)).await
}

impl ListBody {
    /// Writes the batches of one writer.
    async fn write(
        self: Arc<Self>,
        batches: usize,
        numbers: impl Iterator<Item = usize>,
        chunks: Sender<Bytes>,
    ) {
        let Self { request, values, now, settings, endpoints, jobs, total, page, snapshot } = &*self;
        let context = ViewContext::new(values, *now, snapshot, settings.prices.as_ref(), endpoints, jobs);
        let kinds: Vec<KindView<'_>> = snapshot.kinds.iter().map(|state| KindView::new(state)).collect();
        let mut labels = FieldLabelCache::default();
        let envelope = ListView { resources: [(); 0], total: *total, namespace: &request.namespace };
        let envelope = serde_json::to_string(&envelope).expect("a view has only string keys");
        let (head, tail) = envelope.split_once("[]").expect("an empty list is written as []");
        for batch in numbers {
            let mut chunk = Vec::with_capacity(CHUNK_SIZE);
            if batch == 0 {
                chunk.extend([head, "["].concat().bytes());
            }
            for (at, (kind, entry)) in page.iter().enumerate().skip(batch * BATCH_SIZE).take(BATCH_SIZE) {
                if at > 0 {
                    chunk.push(b',');
                }
                let view = ResourceView::new(&kinds[*kind], entry, &context, &mut labels);
                // Only a selection of fields needs a `Value` tree.
                match &request.fields {
                    None => serde_json::to_writer(&mut chunk, &view),
                    Some(fields) => serde_json::to_writer(&mut chunk, &select(&view, fields)),
                }
                .expect("a view has only string keys");
                if chunk.len() >= CHUNK_SIZE && chunks.send(std::mem::take(&mut chunk).into()).await.is_err()
                {
                    // The client has disconnected.
                    return;
                }
            }
            if batch + 1 == batches {
                chunk.extend(["]", tail].concat().bytes());
            }
            if (!chunk.is_empty() && chunks.send(chunk.into()).await.is_err())
                || chunks.send(END_OF_BATCH).await.is_err()
            {
                return;
            }
            // Short requests are answered in between.
            yield_now().await;
        }
    }
}

fn select(view: &ResourceView<'_>, fields: &[String]) -> Value {
    let mut all = serde_json::to_value(view).expect("a view has only string keys");
    let selected = fields.iter().map(|field| (field.clone(), all[field].take()));
    Value::Object(selected.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use std::{hint, thread};

    use serde_json::Value;
    use tokio::sync::mpsc;

    use super::{
        Arc, Filter, ListBody, ListRequest, Page, ServiceEndpoints, Settings, Snapshot, Sort, SortKey,
        TerraformJobs, Timestamp, ValueRedactor,
    };
    use crate::{
        engine::{Claim, ClaimBlocks, ClaimEntry, KindState},
        types::{
            ClaimedObject, ControllerStatus, HashBaseline, JobRun, Kind, LiveObject, ObjectKey,
            ObservedState, Progress, RedactionKey, Source, StatusReport, Verdict,
        },
    };

    /// A custom resource whose controller reports a status, or a Job that runs for it.
    fn object(kind: &str, report: StatusReport) -> Arc<LiveObject> {
        let key = ObjectKey::new(Kind::undiscovered("infra.opr8r", "v1", kind), "shop", "db");
        Arc::new(LiveObject { report: Some(Box::new(report)), ..LiveObject::named(key) })
    }

    /// A body with this many claims on one custom resource, and the snapshot without any Job.
    fn body(claims: usize) -> ListBody {
        let run = JobRun { subject: "db".into(), created: None, started: None, outcome: None };
        let job = object("Job", StatusReport { run: Some(run), record: None });
        let record = ControllerStatus {
            observed_state: ObservedState::Hash(HashBaseline::Absent),
            phase: "Ready".into(),
            progress: Progress::Done,
            message: "".into(),
            outputs: Box::default(),
            since: None,
            grace: jiff::SignedDuration::ZERO,
        };
        let resource = object("SimpleResource", StatusReport { record: Some(record), run: None });
        let kind = resource.key.kind.clone();
        let claim =
            Claim { source: Source::StatusHash, verdict: Verdict::InSync, episodes: None, details: None };
        let entry = Arc::new(ClaimEntry { object: ClaimedObject::Live(resource), claim });
        let state = KindState { kind, watches: Arc::default(), blocks: ClaimBlocks::default() };
        let snapshot = Arc::new(Snapshot { kinds: vec![Arc::new(state)], ..Snapshot::default() });
        ListBody {
            request: ListRequest {
                namespace: "shop".to_owned(),
                filter: Filter::default(),
                sort: Sort { key: SortKey::Id, descending: false },
                page: Page { offset: 0, limit: None },
                fields: None,
            },
            values: ValueRedactor::with_plain_values(RedactionKey::new([1; 32])),
            now: Timestamp::UNIX_EPOCH,
            settings: Arc::new(Settings::default()),
            endpoints: ServiceEndpoints::new(&snapshot, None),
            jobs: [&job].into_iter().collect(),
            total: claims,
            page: vec![(0, entry); claims],
            snapshot,
        }
    }

    #[tokio::test]
    async fn writers_read_the_jobs_that_were_found_off_the_threads_that_serve_requests() {
        let body = body(1);
        let jobs: TerraformJobs = TerraformJobs::new(&body.snapshot, None);
        assert_eq!(jobs.iter().count(), 0, "a writer that reads the snapshot finds none");
        let (chunks, mut received) = mpsc::channel(9);
        Arc::new(body).write(1, 0..1, chunks).await;
        let written: Value = serde_json::from_slice(&received.recv().await.unwrap()).unwrap();
        assert_eq!(written["resources"][0]["job"]["name"], "db");
    }

    /// The engine frees a replaced snapshot, and the objects that only it holds, as soon as no reader holds it.
    #[test]
    fn body_drops_its_snapshot_last() {
        let body = body(1_000_000);
        let (snapshot, entry) = (body.snapshot.clone(), body.page[0].1.clone());
        let dropped = thread::spawn(move || drop(body));
        while Arc::strong_count(&snapshot) > 1 {
            hint::spin_loop();
        }
        assert_eq!(Arc::strong_count(&entry), 1, "the body holds no claim without its snapshot");
        dropped.join().unwrap();
    }
}
