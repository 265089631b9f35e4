// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Kernels, guests and programs that are missing or broken: each is an error that names the file
//! and the remedy, before any boot.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests too")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tempfile::TempDir;
use weirgate_experiment::KernelName;
use weirgate_lab::{Cache, Kernel, KernelChoice, Lab, LabError, Options};

/// Returns the path of the fetched kernel.
fn real_kernel() -> PathBuf {
    let kernel = Kernel::find(None, &Cache::of_user(), &mut |_| ())
        .unwrap_or_else(|error| panic!("{error}"));
    kernel.modules.join("vmlinuz")
}

/// Returns the report about a kernel file with this content.
fn verdict(content: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vmlinuz");
    fs::write(&file, content).unwrap();
    let kernel = KernelChoice::At(file);
    fs::create_dir(folder.path().join("kernel")).unwrap();
    let cache = Cache::at(folder.path().join("cache"));
    let error = Kernel::find(Some(&kernel), &cache, &mut |_| ()).expect_err("it is no kernel");
    assert!(matches!(error, LabError::BadKernel { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("vmlinuz: not a usable kernel"), "{text}");
    assert!(text.contains("weirgate lab prepare --refresh"), "{text}");
    // A second attempt must not find a broken kernel in the cache.
    assert!(Kernel::find(Some(&kernel), &cache, &mut |_| ()).is_err());
    text
}

#[test]
fn files_that_are_no_kernel() {
    assert!(verdict(b"").contains("the file is empty"));
    assert!(verdict(&vec![0; 1 << 20]).contains("no Linux boot header"));
    assert!(verdict(b"#!/bin/sh\necho hello\n").contains("no Linux boot header"));
    assert!(verdict(b"\x7fELF\x02\x01\x01").contains("no Linux boot header"));
}

#[test]
fn kernels_that_are_not_whole() {
    let whole = fs::read(real_kernel()).unwrap();
    let cut = verdict(&whole[..whole.len() / 2]);
    assert!(
        cut.contains(&format!("cut off: {} bytes of", whole.len() / 2)),
        "{cut}"
    );
    let mut holed = whole.clone();
    let middle = whole.len() / 2;
    holed[middle..middle + 4096].fill(0);
    let holed = verdict(&holed);
    assert!(holed.contains("its compressed part is damaged"), "{holed}");
}

#[test]
fn kernels_of_another_kind() {
    let mut kernel = fs::read(real_kernel()).unwrap();
    kernel[0x236] &= !1;
    assert!(verdict(&kernel).contains("not a 64-bit kernel"));
    kernel[0x206..0x208].copy_from_slice(&0x0204_u16.to_le_bytes());
    assert!(verdict(&kernel).contains("boot protocol is 2.04"));
}

#[test]
fn a_kernel_without_its_modules() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("vmlinuz");
    fs::copy(real_kernel(), &file).unwrap();
    let error = Kernel::find(
        Some(&KernelChoice::At(file)),
        &Cache::at(folder.path().join("cache")),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(matches!(error, LabError::NoModules { .. }), "{error}");
    assert!(
        error.to_string().contains("weirgate lab prepare"),
        "{error}"
    );
}

#[test]
fn a_kernel_that_is_not_there() {
    let error = Kernel::find(
        Some(&KernelChoice::At("/no/such/vmlinuz".into())),
        &Cache::of_user(),
        &mut |_| (),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("/no/such/vmlinuz: kernel: No such file"),
        "{error}"
    );
}

#[test]
fn a_kernel_that_was_not_fetched() {
    let folder = tempfile::tempdir().unwrap();
    for (word, name) in KernelName::ALL {
        let kernel = KernelChoice::Named(name);
        let error = Kernel::find(Some(&kernel), &Cache::at(folder.path()), &mut |_| ());
        let text = error.unwrap_err().to_string();
        let remedy = format!("run: weirgate lab prepare --kernel {word}");
        assert!(text.ends_with(&remedy), "{text}");
    }
}

/// Returns the error of opening a lab with these parts.
fn refusal(change: impl FnOnce(&mut Options, &TempDir)) -> LabError {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    change(&mut options, &folder);
    Lab::open(&options, &mut |_| ()).expect_err("a part is bad")
}

#[test]
fn guests_and_programs_that_are_not_there() {
    let error = refusal(|options, _| options.guest = Some("/no/such/guest".into()));
    let text = error.to_string();
    assert!(matches!(error, LabError::NoGuest { .. }), "{text}");
    assert!(
        text.contains("/no/such/guest") && text.contains("cargo build"),
        "{text}"
    );
    let error = refusal(|options, _| {
        options.programs.insert("no-such-program".into());
    });
    assert!(matches!(error, LabError::NoProgram { ref name } if name == "no-such-program"));
}

#[test]
fn programs_that_cannot_run_in_the_guest() {
    let error = refusal(|options, folder| {
        let script = folder.path().join("script");
        fs::write(&script, "#!/bin/sh\n").unwrap();
        let mut mode = fs::metadata(&script).unwrap().permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
        fs::set_permissions(&script, mode).unwrap();
        options
            .programs
            .insert(script.to_string_lossy().into_owned());
    });
    assert!(matches!(error, LabError::BadProgram { .. }), "{error}");
    assert!(
        error.to_string().contains("not an x86-64 program"),
        "{error}"
    );
}

#[test]
fn a_broken_module_is_named() {
    let error = refusal(|options, folder| {
        let tree = folder.path().join("tree");
        let modules = tree.join("kernel/net/sched");
        fs::create_dir_all(&modules).unwrap();
        fs::copy(real_kernel(), tree.join("vmlinuz")).unwrap();
        fs::write(modules.join("sch_htb.ko"), "nonsense").unwrap();
        options.kernel = Some(KernelChoice::At(tree));
        options.cache = Cache::at(folder.path().join("cache"));
    });
    assert!(matches!(error, LabError::BadModule { .. }), "{error}");
    assert!(error.to_string().contains("sch_htb.ko"), "{error}");
}

#[test]
fn what_was_damaged_in_the_cache_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    // The machine may only have the fetched emulator.
    let fetched = Cache::of_user().root().join("emulators");
    symlink(fetched, folder.path().join("emulators")).unwrap();
    let options = Options {
        cache: Cache::at(folder.path()),
        kernel: Some(KernelChoice::At(real_kernel())),
        ..Options::default()
    };
    let notes = || {
        let mut notes = Vec::new();
        let opened = Lab::open(&options, &mut |note| notes.push(note.to_owned()));
        opened.unwrap_or_else(|error| panic!("{error}"));
        notes
    };
    assert_eq!(notes(), Vec::<String>::new());
    for directory in ["images", "unpacked"] {
        let files = fs::read_dir(folder.path().join(directory)).unwrap();
        let mut files = files.map(|entry| entry.unwrap().path());
        let kept = |file: &PathBuf| file.extension().is_none_or(|kind| kind != "check");
        let file = files.find(kept).unwrap();
        let whole = fs::read(&file).unwrap();
        let mut turned = whole.clone();
        turned[whole.len() / 2] ^= 1;
        for damaged in [&whole[..whole.len() / 2], &turned] {
            fs::write(&file, damaged).unwrap();
            let damage = format!("{} is damaged and is made again", file.display());
            assert_eq!(notes(), [damage]);
            assert!(fs::read(&file).unwrap() == whole);
            assert_eq!(notes(), Vec::<String>::new());
        }
    }
}
