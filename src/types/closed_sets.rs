//! Closed sets whose members are label values, JSON strings and table cells.

/// An enum of which every member has exactly one spelling.
pub trait ClosedSet: Copy + PartialEq + 'static {
    fn members() -> &'static [Self];

    /// The spelling of this member in labels, JSON and settings.
    fn as_str(self) -> &'static str;

    fn spellings() -> Vec<&'static str> {
        Self::members().iter().map(|member| member.as_str()).collect()
    }
}

macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$member_doc])* #[serde(rename = $text)] $member,)+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$member,)+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$member => $text,)+ }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|member| member.as_str() == text)
            }
        }

        impl $crate::types::ClosedSet for $name {
            fn members() -> &'static [Self] {
                Self::ALL
            }

            fn as_str(self) -> &'static str {
                Self::as_str(self)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use closed_set;

closed_set! {
    Source {
        /// A hash in an annotation of the object.
        Annotation = "annotation",
        /// A Terraform or `OpenTofu` state.
        Terraform = "terraform",
        /// The deployed release of a Helm chart.
        Helm = "helm",
        /// The annotation `last-applied-configuration` of kubectl.
        LastApplied = "last_applied",
        /// YAML in a directory.
        Manifest = "manifest",
        /// The status of a custom resource, as its controller records it.
        StatusHash = "status_hash",
        /// The object is watched, but no source claims it.
        Unclaimed = "none",
    }
}

impl Source {
    /// Whether the object itself carries the desired state, so that it disappears with the object.
    pub fn is_on_object(self) -> bool {
        match self {
            Self::Annotation | Self::LastApplied | Self::StatusHash | Self::Unclaimed => true,
            Self::Terraform | Self::Helm | Self::Manifest => false,
        }
    }

    /// Whether it declares single fields. The others have a hash, which is judged at once.
    pub fn declares_fields(self) -> bool {
        match self {
            Self::Terraform | Self::Helm | Self::Manifest | Self::LastApplied => true,
            Self::Annotation | Self::StatusHash | Self::Unclaimed => false,
        }
    }
}

closed_set! {
    /// The source of the onset of a difference.
    OnsetSource {
        /// `managedFields` has the time at which the field manager wrote the field. It is exact, and the same after a restart.
        FieldManager = "field_manager",
        /// The time at which the exporter first saw the difference, because the object has none. A restart changes it.
        Observed = "observed",
        /// An earlier run observed the onset and wrote it to the history file.
        History = "history",
    }
}

closed_set! {
    FieldClass {
        Replicas = "replicas",
        Image = "image",
        Env = "env",
        /// Resource requests and limits.
        Resources = "resources",
        /// Ports of a container or a Service.
        Ports = "ports",
        Selector = "selector",
        Labels = "labels",
        Annotations = "annotations",
        /// Security contexts, privileges, host access.
        Security = "security",
        /// Liveness, readiness and startup probes.
        Probes = "probes",
        Volumes = "volumes",
        /// Roles, bindings and subjects.
        Rbac = "rbac",
        /// Data of `ConfigMaps` and Secrets.
        Data = "data",
        /// The object is missing or replaced.
        Existence = "existence",
        /// Only hashes are compared, so the field is unknown.
        Hash = "hash",
        Other = "other",
    }
}

impl FieldClass {
    /// Whether fields of this class never hold credentials. `api.values` redacts all others by default.
    pub fn is_public(self) -> bool {
        match self {
            Self::Replicas
            | Self::Image
            | Self::Resources
            | Self::Ports
            | Self::Selector
            | Self::Labels
            | Self::Security
            | Self::Rbac
            | Self::Existence
            | Self::Hash => true,
            Self::Env | Self::Annotations | Self::Probes | Self::Volumes | Self::Data | Self::Other => false,
        }
    }
}

closed_set! {
    /// The class of the tool that last set a field, by its field manager.
    Actor {
        /// Terraform or `OpenTofu`.
        Terraform = "terraform",
        /// kubectl and other interactive tools.
        Kubectl = "kubectl",
        Helm = "helm",
        /// Argo CD, Flux and similar.
        Gitops = "gitops",
        /// A horizontal, vertical or event-driven autoscaler.
        Autoscaler = "autoscaler",
        Controller = "controller",
        Console = "console",
        /// A field manager that is not in the table.
        Other = "other",
        /// No manager owns the field.
        Unknown = "none",
    }
}

impl Actor {
    /// The name in prose: `unknown` instead of `none`.
    pub fn in_prose(self) -> &'static str {
        if self == Self::Unknown { "unknown" } else { self.as_str() }
    }
}

closed_set! {
    /// The severity of a difference, in ascending order: `max` returns the worst.
    Severity {
        Info = "info",
        Warning = "warning",
        Critical = "critical",
    }
}

closed_set! {
    /// Whether a difference is part of normal operation.
    Expectation {
        /// Rollout restarts, autoscaled replicas and similar.
        Expected = "expected",
        Unexpected = "unexpected",
    }
}

closed_set! {
    /// The recommended reaction. The exporter never acts on it.
    Advice {
        /// Automation may revert it.
        AutoRemediate = "auto_remediate",
        /// A person should review it first.
        AlertOnly = "alert_only",
    }
}

closed_set! {
    /// What sort of change a difference is, by its two values.
    ChangeKind {
        /// The field is not declared.
        Added = "added",
        /// The declared field does not exist.
        Removed = "removed",
        /// The list has the same elements in another order.
        Reordered = "reordered",
        /// A higher patch level of the same version: 15 → 15.2, 1.27.1 → 1.27.4.
        PatchVersion = "patch_version",
        /// Another major version: 15 → 16.
        MajorVersion = "major_version",
    }
}

closed_set! {
    ResolutionCause {
        /// The live value returned to the declared value.
        Reverted = "reverted",
        /// The declared value changed to the live value, or the object is no longer declared.
        Absorbed = "absorbed",
        /// The object was deleted, or the baseline that it carried.
        Deleted = "deleted",
        /// Rules ignore it now, it became untrusted, or its watch, source or baseline was removed.
        Rule = "rule",
    }
}

closed_set! {
    BaselineFault {
        /// Parts are missing, or belong to different versions.
        Incomplete = "torn",
        Truncated = "truncated",
        /// Larger than the limit.
        TooLarge = "too_large",
        Encrypted = "encrypted",
        UnsupportedVersion = "unsupported_version",
        /// Malformed, or another format.
        Unreadable = "unreadable",
        /// The content belongs to something else: a release of another name or namespace.
        Foreign = "foreign",
        /// No revision of the release is deployed.
        NotDeployed = "not_deployed",
    }
}

closed_set! {
    RestartReason {
        /// The API server closed it after the requested timeout.
        Planned = "planned",
        /// The connection was closed early.
        Closed = "closed",
        /// 410 Gone: the resource version expired, and all objects were listed again.
        Gone = "gone",
        /// Neither events nor bookmarks arrived for too long.
        Stalled = "stalled",
        Forbidden = "forbidden",
        /// The API server does not serve the kind.
        NotFound = "not_found",
        /// The API server could not be reached, or returned an error.
        Error = "error",
    }
}

closed_set! {
    WatchEvent {
        /// An object of a list.
        Listed = "listed",
        Added = "added",
        Modified = "modified",
        Deleted = "deleted",
        Bookmark = "bookmark",
        /// The API server reported an error.
        Error = "error",
    }
}

closed_set! {
    /// The health of an object by its own status.
    #[derive(Default)]
    Health {
        Healthy = "Healthy",
        /// Available, with less than the desired replicas.
        Degraded = "Degraded",
        Unhealthy = "Unhealthy",
        /// The status does not say.
        #[default]
        Unknown = "Unknown",
    }
}

closed_set! {
    /// The phase of an object, if it says more than its health.
    Phase {
        /// A rollout or a provisioning is not complete.
        Progressing = "Progressing",
        Suspended = "Suspended",
        Completed = "Completed",
        Terminating = "Terminating",
    }
}
