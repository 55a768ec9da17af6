//! Files that change while a program polls them.

use std::{
    fs::{self, Permissions},
    os::unix::{
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    process::Command,
};

use drift_exporter::config::{FileWatch, read_small_file};

fn content(watch: &mut FileWatch) -> Option<Result<String, ()>> {
    watch.poll().map(|read| read.map_err(|_| ()))
}

/// The results of this many polls.
fn polls<const N: usize>(watch: &mut FileWatch) -> [Option<Result<String, ()>>; N] {
    std::array::from_fn(|_| content(watch))
}

#[test]
fn file_is_read_when_stable_and_again_after_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.yaml");
    fs::write(&path, "a").unwrap();
    let mut watch = FileWatch::new(path.clone());
    assert_eq!(polls(&mut watch), [None, Some(Ok("a".into())), None]);
    fs::write(&path, "half").unwrap();
    assert_eq!(content(&mut watch), None);
    fs::write(&path, "whole").unwrap();
    assert_eq!(polls(&mut watch), [None, Some(Ok("whole".into()))]);
    fs::remove_file(&path).unwrap();
    assert_eq!(polls(&mut watch), [None, Some(Err(())), None]);
}

#[test]
fn only_regular_files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name);
    assert!(Command::new("mkfifo").arg(inside("pipe")).status().unwrap().success());
    fs::create_dir(inside("directory")).unwrap();
    let _socket = UnixListener::bind(inside("socket")).unwrap();
    symlink("pipe", inside("link")).unwrap();
    for (path, word) in [
        (inside("pipe"), "a named pipe"),
        (inside("link"), "a named pipe"),
        (inside("directory"), "a directory"),
        (inside("socket"), "a socket"),
        ("/dev/zero".into(), "a device"),
    ] {
        let wanted = format!("this is {word}; want a regular file");
        assert_eq!(read_small_file(&path).unwrap_err().to_string(), wanted);
    }
    let mut watch = FileWatch::new(inside("pipe"));
    assert_eq!(polls(&mut watch), [None, Some(Err(())), None]);
    fs::write(inside("good"), "good").unwrap();
    fs::rename(inside("good"), inside("pipe")).unwrap();
    assert_eq!(polls(&mut watch), [None, Some(Ok("good".into()))]);
}

#[test]
fn change_of_permissions_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings.yaml");
    fs::write(&path, "a").unwrap();
    let mut watch = FileWatch::new(path.clone());
    assert_eq!(watch.read_now().unwrap().unwrap(), "a");
    assert_eq!(polls(&mut watch), [None, None]);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(polls(&mut watch), [None, Some(Ok("a".into()))]);
}

#[test]
fn swapped_symlink_of_a_config_map_is_a_change() {
    let folder = tempfile::tempdir().unwrap();
    let inside = |name: &str| folder.path().join(name);
    for version in ["v1", "v2"] {
        fs::create_dir(inside(version)).unwrap();
        fs::write(inside(version).join("settings.yaml"), version).unwrap();
    }
    symlink("v1", inside("..data")).unwrap();
    symlink("..data/settings.yaml", inside("settings.yaml")).unwrap();
    let mut watch = FileWatch::new(inside("settings.yaml"));
    assert_eq!(watch.read_now().unwrap().unwrap(), "v1");
    symlink("v2", inside("..data_tmp")).unwrap();
    fs::rename(inside("..data_tmp"), inside("..data")).unwrap();
    assert_eq!(polls(&mut watch), [None, Some(Ok("v2".into()))]);
}
