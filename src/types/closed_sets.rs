//! The closed sets whose members become label values, JSON strings and table cells.

/// A set of words that is known in full.
pub trait ClosedSet: Copy + PartialEq + 'static {
    /// Every member, in order.
    fn members() -> &'static [Self];

    /// The one spelling of this member.
    fn word(self) -> &'static str;
}

/// Declares an enum whose members each have exactly one spelling, used everywhere.
macro_rules! closed_set {
    ($(#[$doc:meta])* $name:ident { $($(#[$member_doc:meta])* $member:ident = $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$member_doc])* $member,)+ }

        impl $name {
            /// Every member, in order.
            pub const ALL: &'static [Self] = &[$(Self::$member,)+];

            /// The one spelling of this member.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$member => $text,)+ }
            }

            /// The member of this spelling.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|member| member.as_str() == text)
            }
        }

        impl $crate::types::ClosedSet for $name {
            fn members() -> &'static [Self] {
                Self::ALL
            }

            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}
pub(super) use closed_set;

closed_set! {
    /// Where a baseline is written.
    Source {
        /// A hash in an annotation of the object itself.
        Annotation = "annotation",
        /// A Terraform or `OpenTofu` state.
        Terraform = "terraform",
        /// The deployed release of a Helm chart.
        Helm = "helm",
        /// What kubectl wrote down on the object when it applied it.
        LastApplied = "last_applied",
        /// YAML in a directory.
        Manifest = "manifest",
        /// What a custom resource's own controller recorded in its status.
        StatusHash = "status_hash",
        /// Nothing: the object is watched, and no source claims it.
        Nothing = "none",
    }
}

impl Source {
    /// Whether what it declares for an object stands on the object itself, and is nowhere else.
    pub fn is_on_object(self) -> bool {
        match self {
            Self::Annotation | Self::LastApplied | Self::StatusHash | Self::Nothing => true,
            Self::Terraform | Self::Helm | Self::Manifest => false,
        }
    }
}

closed_set! {
    /// What kind of field differs.
    FieldClass {
        /// The number of replicas.
        Replicas = "replicas",
        /// A container image.
        Image = "image",
        /// An environment variable.
        Env = "env",
        /// Resource requests and limits.
        Resources = "resources",
        /// Ports of a container or a Service.
        Ports = "ports",
        /// A label selector.
        Selector = "selector",
        /// Labels.
        Labels = "labels",
        /// Annotations.
        Annotations = "annotations",
        /// Security contexts, privileges, host access.
        Security = "security",
        /// Liveness, readiness and startup probes.
        Probes = "probes",
        /// Volumes and their mounts.
        Volumes = "volumes",
        /// Roles, bindings and their subjects.
        Rbac = "rbac",
        /// Data of `ConfigMaps` and Secrets.
        Data = "data",
        /// The object is missing, or another one has taken its name.
        Existence = "existence",
        /// Only a hash is known: some field differs.
        Hash = "hash",
        /// Everything else.
        Other = "other",
    }
}

closed_set! {
    /// The class of tool that last set a drifted field.
    Actor {
        /// Terraform or `OpenTofu`.
        Terraform = "terraform",
        /// kubectl and other hand tools.
        Kubectl = "kubectl",
        /// Helm.
        Helm = "helm",
        /// Argo CD, Flux and their kin.
        Gitops = "gitops",
        /// The horizontal, vertical or an event-driven autoscaler.
        Autoscaler = "autoscaler",
        /// A controller or operator.
        Controller = "controller",
        /// A web console.
        Console = "console",
        /// A tool that we do not know.
        Other = "other",
        /// Nobody owns the field.
        Nobody = "none",
    }
}

closed_set! {
    /// How bad a difference is; the worst stands last, so that `max` finds it.
    Severity {
        /// Worth knowing.
        Info = "info",
        /// Worth a ticket.
        Warning = "warning",
        /// Cannot wait.
        Critical = "critical",
    }
}

closed_set! {
    /// Whether a difference is of the kind that happens by itself.
    Expectation {
        /// Rollout restarts, autoscaled replicas and the like.
        Expected = "expected",
        /// Everything else.
        Unexpected = "unexpected",
    }
}

closed_set! {
    /// What a person should do about a difference. We never do it ourselves.
    Advice {
        /// Safe to be put back by a machine.
        AutoRemediate = "auto_remediate",
        /// A person should look first.
        AlertOnly = "alert_only",
    }
}

closed_set! {
    /// What sort of change made a field differ, as far as its two values tell.
    ChangeKind {
        /// The field was not declared.
        Added = "added",
        /// The declared field is gone.
        Removed = "removed",
        /// The list has the same elements in another order.
        Reordered = "reordered",
        /// The same version with a newer patch level: 15 → 15.2, 1.27.1 → 1.27.4.
        PatchVersion = "patch_version",
        /// Another major version: 15 → 16.
        MajorVersion = "major_version",
    }
}

closed_set! {
    /// Why an episode ended.
    Cause {
        /// The object went back to its baseline.
        Reverted = "reverted",
        /// The baseline moved to where the object is.
        Absorbed = "absorbed",
        /// The object, or its baseline, was deleted.
        Deleted = "deleted",
        /// A rule now ignores it.
        Rule = "rule",
    }
}

closed_set! {
    /// Why a baseline could not be read.
    BaselineFault {
        /// A part of it is missing, or the parts do not belong together.
        Torn = "torn",
        /// It ends too early.
        Truncated = "truncated",
        /// It is larger than anything we read.
        TooLarge = "too_large",
        /// It is encrypted.
        Encrypted = "encrypted",
        /// It is written in a version that we do not know.
        UnsupportedVersion = "unsupported_version",
        /// It is something else, or broken.
        Unreadable = "unreadable",
        /// It is that of something else: a release of another name or namespace.
        Foreign = "foreign",
        /// No version of it holds: no revision of a release is deployed.
        NotDeployed = "not_deployed",
    }
}

closed_set! {
    /// Why a watch was opened again.
    Restart {
        /// The server ended it after the time that was asked for.
        Planned = "planned",
        /// It was cut early.
        Closed = "closed",
        /// The server has forgotten our version; everything was listed again.
        Gone = "gone",
        /// The server said nothing for too long.
        Stalled = "stalled",
        /// The API server forbids it.
        Forbidden = "forbidden",
        /// The API server does not know the kind.
        NotFound = "not_found",
        /// The server could not be reached, or answered with an error.
        Error = "error",
    }
}

closed_set! {
    /// What came in through a stream.
    WatchEvent {
        /// An object of a list.
        Listed = "listed",
        /// An object appeared.
        Added = "added",
        /// An object changed.
        Modified = "modified",
        /// An object went.
        Deleted = "deleted",
        /// A sign of life.
        Bookmark = "bookmark",
        /// The server reported an error.
        Error = "error",
    }
}

closed_set! {
    /// How well an object works, as far as its own status tells.
    Health {
        /// Works as declared.
        Healthy = "Healthy",
        /// Works, with less than was declared.
        Degraded = "Degraded",
        /// Does not work.
        Unhealthy = "Unhealthy",
        /// Its status does not say.
        Unknown = "Unknown",
    }
}

closed_set! {
    /// What an object is doing, where that says more than how well it works.
    Phase {
        /// What was asked for is not done yet.
        Progressing = "Progressing",
        /// Somebody has told it to wait.
        Suspended = "Suspended",
        /// It has done what it was there for.
        Completed = "Completed",
        /// It is being deleted.
        Terminating = "Terminating",
    }
}
