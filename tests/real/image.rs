//! The image: its final stage as buildah makes it, run by podman as the chart has it run.
//!
//! The image that it stands on is not fetched. It is put together from the Debian packages that it consists of.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::support::{
    cluster::{Cluster, User},
    exporter::Exporter,
    objects::{create_namespace, create_stamped, deployment, grant, read_only_rules},
};
use drift_exporter::types::Kind;
use k8s_openapi::api::apps::v1::Deployment;

/// What distroless/cc-debian12 is made of, as far as a program can see it.
const PACKAGES: [&str; 7] =
    ["base-files", "ca-certificates", "libc6", "libgcc-s1", "libstdc++6", "netbase", "tzdata"];

/// A sandbox may have less to give than podman asks for by itself.
const LIMITS: &str = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n";

/// A folder in which images are made and run, and nothing outside of it is touched.
struct Workshop {
    folder: PathBuf,
}

impl Workshop {
    fn new(folder: &Path) -> Self {
        let folder = folder.join("image");
        fs::create_dir_all(folder.join("packages")).unwrap();
        fs::write(folder.join("containers.conf"), LIMITS).unwrap();
        Self { folder }
    }

    /// buildah or podman, which keep everything in the folder.
    fn words(&self, program: &str) -> Vec<String> {
        let place = |name: &str| self.folder.join(name).display().to_string();
        let (storage, run) = (place("storage"), place("run"));
        let mut words = vec![program, "--storage-driver", "vfs", "--root", &storage, "--runroot", &run];
        if program == "podman" {
            words.extend(["--runtime", "runc"]);
        }
        words.into_iter().map(str::to_owned).collect()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(&self.words(program)[1..]).current_dir(&self.folder);
        command.env("CONTAINERS_CONF", self.folder.join("containers.conf"));
        command
    }

    fn build(&self, dockerfile: &str, tag: &str, arguments: &[&str]) {
        fs::write(self.folder.join("Dockerfile"), dockerfile).unwrap();
        let mut command = self.command("buildah");
        said(
            command.args(["bud", "--quiet", "--isolation", "chroot", "--tag", tag]).args(arguments).arg("."),
        );
    }

    /// The image that ours stands on.
    fn build_base(&self) {
        let packages = self.folder.join("packages");
        said(Command::new("apt-get").arg("download").args(PACKAGES).current_dir(&packages));
        for package in fs::read_dir(&packages).unwrap() {
            let package = package.unwrap().path();
            said(Command::new("dpkg-deb").arg("-x").arg(package).arg(self.folder.join("root")));
        }
        self.build("FROM scratch\nCOPY root /\n", "localhost/base", &[]);
    }

    /// The final stage of our Dockerfile, with a program that was built before.
    fn build_final_stage(&self) {
        let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("Dockerfile")).unwrap();
        let (_, stage) = text.rsplit_once("\nFROM ").unwrap();
        let copied = "COPY --from=build /drift-exporter ";
        assert!(stage.contains(copied), "{stage}");
        let stage = stage.replace(copied, "COPY drift-exporter ");
        for (from, name) in [
            (env!("CARGO_BIN_EXE_drift-exporter").into(), "drift-exporter"),
            (Path::new(env!("CARGO_MANIFEST_DIR")).join("LICENSE"), "LICENSE"),
        ] {
            fs::copy(from, self.folder.join(name)).unwrap();
        }
        let dockerfile = format!("ARG BASE\nFROM {stage}");
        let arguments =
            ["BASE=localhost/base", "VERSION=v9", "REVISION=abc", "SOURCE=https://git.example.com/x"];
        let arguments: Vec<&str> = arguments.iter().flat_map(|own| ["--build-arg", own]).collect();
        self.build(&dockerfile, "localhost/drift-exporter", &arguments);
    }

    /// What podman knows of something.
    fn inspect(&self, what: &str, name: &str) -> Value {
        let text = said(self.command("podman").args([what, "inspect", name]));
        serde_json::from_str::<Value>(&text).unwrap()[0].take()
    }
}

impl Drop for Workshop {
    /// A container outlives the podman that was killed.
    fn drop(&mut self) {
        let _ = self.command("podman").args(["rm", "--force", "--time", "0", "--all"]).output();
    }
}

#[track_caller]
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A cluster with one object that is declared.
fn cluster() -> Cluster {
    let cluster = Cluster::start();
    let client = cluster.client();
    cluster.block_on(async {
        grant(&client, "drift-exporter", read_only_rules()).await;
        create_namespace(&client, "shop").await;
        create_stamped::<Deployment>(&client, &Kind::deployment(), &deployment("shop", "web")).await;
    });
    cluster
}

#[test]
fn the_image_runs_without_rights_on_a_root_that_cannot_be_written() {
    let cluster = cluster();
    let workshop = Workshop::new(cluster.folder());
    workshop.build_base();
    workshop.build_final_stage();
    let config = &workshop.inspect("image", "localhost/drift-exporter")["Config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], json!(["/drift-exporter"]));
    assert_eq!(config["Cmd"], json!(["run"]));
    assert_eq!(config["ExposedPorts"], json!({"10374/tcp": {}}));
    for (word, wanted) in [("version", "v9"), ("revision", "abc"), ("source", "https://git.example.com/x")] {
        assert_eq!(config["Labels"][format!("org.opencontainers.image.{word}")], wanted);
    }

    // What those are told to run who have an image.
    let engine = format!("ENGINE={}", workshop.words("podman").join(" "));
    let mut make = Command::new("make");
    make.args(["-s", "test-image", "IMAGE=localhost/drift-exporter", &engine])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    make.env("CONTAINERS_CONF", workshop.folder.join("containers.conf"));
    assert!(said(&mut make).starts_with("settings: fine"));

    let kubeconfig = workshop.folder.join("kubeconfig");
    fs::copy(cluster.kubeconfig(User::Exporter), &kubeconfig).unwrap();
    let mut command = workshop.command("podman");
    command.args(["run", "--rm", "--name", "drift-exporter", "--network", "host", "--read-only"]);
    command.args(["--read-only-tmpfs=false", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
    command.arg("--volume").arg(format!("{}:/kubeconfig:ro", kubeconfig.display()));
    // It names the authority's certificate by its path.
    let certificates = cluster.folder().join("certificates").display().to_string();
    command.arg("--volume").arg(format!("{certificates}:{certificates}:ro"));
    command.arg("localhost/drift-exporter");
    let mut exporter =
        Exporter::start_command(&mut command, Path::new("/kubeconfig"), cluster.folder(), &[]).ready();
    let labels = [("namespace", "shop"), ("name", "web"), ("kind", "Deployment")];
    exporter.wait_for("drift_resource_drifted", &labels, Some(0.0));

    let pid = &workshop.inspect("container", "drift-exporter")["State"]["Pid"];
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    for line in ["Uid:\t65532\t65532\t65532\t65532", "CapEff:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(line), "{line} is not in {status}");
    }
    let mounts = fs::read_to_string(format!("/proc/{pid}/mounts")).unwrap();
    let root = mounts.lines().find(|line| line.split(' ').nth(1) == Some("/")).unwrap();
    assert!(root.split(' ').nth(3).unwrap().split(',').any(|option| option == "ro"), "{root}");

    exporter.running.signal("TERM");
    assert_eq!(exporter.running.wait(), Some(0), "{}", exporter.logged());
}
