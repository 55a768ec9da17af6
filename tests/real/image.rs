//! The image: its final stage as buildah builds it, run by podman with the security context of the chart.
//!
//! The base image is not pulled. The test assembles it from its Debian packages.

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
    objects::{create_namespace, create_with_hash, deployment, grant, read_only_rules},
};
use drift_exporter::types::Kind;
use k8s_openapi::api::apps::v1::Deployment;

/// The packages of distroless/cc-debian12 that a program depends on.
const PACKAGES: [&str; 7] =
    ["base-files", "ca-certificates", "libc6", "libgcc-s1", "libstdc++6", "netbase", "tzdata"];

/// A sandbox may have lower limits than podman's defaults.
const LIMITS: &str = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n";

/// A folder that contains all images and containers of the test.
struct ImageFixture {
    folder: PathBuf,
}

impl ImageFixture {
    fn new(folder: &Path) -> Self {
        let folder = folder.join("image");
        fs::create_dir_all(folder.join("packages")).unwrap();
        fs::write(folder.join("containers.conf"), LIMITS).unwrap();
        Self { folder }
    }

    /// buildah or podman, with their storage in the folder.
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
        run_ok(
            command.args(["bud", "--quiet", "--isolation", "chroot", "--tag", tag]).args(arguments).arg("."),
        );
    }

    /// The base image.
    fn build_base(&self) {
        let packages = self.folder.join("packages");
        run_ok(Command::new("apt-get").arg("download").args(PACKAGES).current_dir(&packages));
        for package in fs::read_dir(&packages).unwrap() {
            let package = package.unwrap().path();
            run_ok(Command::new("dpkg-deb").arg("-x").arg(package).arg(self.folder.join("root")));
        }
        self.build("FROM scratch\nCOPY root /\n", "localhost/base", &[]);
    }

    /// The final stage of our Dockerfile, with a program that is already built.
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
        let arguments: Vec<&str> = arguments.iter().flat_map(|argument| ["--build-arg", argument]).collect();
        self.build(&dockerfile, "localhost/drift-exporter", &arguments);
    }

    /// The output of `podman inspect`.
    fn inspect(&self, what: &str, name: &str) -> Value {
        let text = run_ok(self.command("podman").args([what, "inspect", name]));
        serde_json::from_str::<Value>(&text).unwrap()[0].take()
    }
}

impl Drop for ImageFixture {
    /// A container outlives a killed podman.
    fn drop(&mut self) {
        let _ = self.command("podman").args(["rm", "--force", "--time", "0", "--all"]).output();
    }
}

#[track_caller]
fn run_ok(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A cluster with one declared object.
fn cluster() -> Cluster {
    let cluster = Cluster::start();
    let client = cluster.client();
    cluster.block_on(async {
        grant(&client, "drift-exporter", read_only_rules()).await;
        create_namespace(&client, "shop").await;
        create_with_hash::<Deployment>(&client, &Kind::deployment(), &deployment("shop", "web")).await;
    });
    cluster
}

#[test]
fn image_runs_unprivileged_with_a_read_only_root() {
    let cluster = cluster();
    let fixture = ImageFixture::new(cluster.folder());
    fixture.build_base();
    fixture.build_final_stage();
    let config = &fixture.inspect("image", "localhost/drift-exporter")["Config"];
    assert_eq!(config["User"], "65532:65532");
    assert_eq!(config["Entrypoint"], json!(["/drift-exporter"]));
    assert_eq!(config["Cmd"], json!(["run"]));
    assert_eq!(config["ExposedPorts"], json!({"10374/tcp": {}}));
    for (word, expected) in [("version", "v9"), ("revision", "abc"), ("source", "https://git.example.com/x")]
    {
        assert_eq!(config["Labels"][format!("org.opencontainers.image.{word}")], expected);
    }

    // The command of the quick start for container users.
    let engine = format!("ENGINE={}", fixture.words("podman").join(" "));
    let mut make = Command::new("make");
    make.args(["-s", "test-image", "IMAGE=localhost/drift-exporter", &engine])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    make.env("CONTAINERS_CONF", fixture.folder.join("containers.conf"));
    assert!(run_ok(&mut make).starts_with("settings: fine"));

    let kubeconfig = fixture.folder.join("kubeconfig");
    fs::copy(cluster.kubeconfig(User::Exporter), &kubeconfig).unwrap();
    let mut command = fixture.command("podman");
    command.args(["run", "--rm", "--name", "drift-exporter", "--network", "host", "--read-only"]);
    command.args(["--read-only-tmpfs=false", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
    command.arg("--volume").arg(format!("{}:/kubeconfig:ro", kubeconfig.display()));
    // The kubeconfig contains the path of the CA certificate.
    let certificates = cluster.folder().join("certificates").display().to_string();
    command.arg("--volume").arg(format!("{certificates}:{certificates}:ro"));
    command.arg("localhost/drift-exporter");
    let mut exporter =
        Exporter::start_command(&mut command, Path::new("/kubeconfig"), cluster.folder(), &[]).ready();
    let labels = [("namespace", "shop"), ("name", "web"), ("kind", "Deployment")];
    exporter.wait_for("drift_resource_drifted", &labels, Some(0.0));

    let pid = &fixture.inspect("container", "drift-exporter")["State"]["Pid"];
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
