// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine's file system: a small Debian of this machine's release, with systemd, a kernel's
//! modules, the packages, and this program.

use crate::command::run;
use crate::files::{empty, put, put_all, text, write};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Packages in addition to Debian's smallest system. The guard uses D-Bus to request its own unit.
const INCLUDED: &str = "systemd-sysv,dbus,kmod,iproute2,nftables,libelf1,zlib1g,gzip";

/// The unit that tests the packages, and then shuts down the machine.
const UNIT: &str = "[Unit]\nDescription=Works the packages\nAfter=multi-user.target\n\
    SuccessAction=poweroff-force\nFailureAction=poweroff-force\n\
    [Service]\nType=oneshot\nExecStart=/usr/local/bin/xtask test-packages --inside\n\
    StandardOutput=tty\nStandardError=tty\nTTYPath=/dev/ttyS0\nTimeoutStartSec=infinity\n";

/// The folders of kernel modules that are included.
const MODULES: [&str; 2] = ["net", "drivers/net"];

/// Builds the image. The base system is fetched once and reused.
pub fn image(folder: &Path, kernel: &Path, older: &Path, newer: &Path) -> Result<PathBuf> {
    // The name has the list of packages, so that a system without some of them is not reused.
    let base = folder.join(format!("debian,{INCLUDED}.tar"));
    if !base.exists() {
        debian(folder, &base)?;
    }
    let tree = folder.join("root");
    empty(&tree)?;
    run(Command::new("tar")
        .args(["--numeric-owner", "-xpf"])
        .arg(&base)
        .arg("-C")
        .arg(&tree))?;
    put(older, &tree.join("packages/older.deb"), 0o644)?;
    put(newer, &tree.join("packages/newer.deb"), 0o644)?;
    let own = std::env::current_exe()?;
    put(&own, &tree.join("usr/local/bin/xtask"), 0o755)?;
    let units = tree.join("etc/systemd/system");
    write(&units.join("packages.service"), UNIT.as_bytes(), 0o644)?;
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    symlink("../packages.service", wants.join("packages.service"))?;
    modules(kernel, &tree)?;
    let image = folder.join("root.cpio");
    let archive = fs::File::create(&image)?;
    let mut find = Command::new("find")
        .args([".", "-print0"])
        .current_dir(&tree)
        .stdout(Stdio::piped())
        .spawn()
        .context("find (package findutils)")?;
    let names = find.stdout.take().context("its output")?;
    run(Command::new("cpio")
        .args(["--quiet", "--null", "-o", "-H", "newc"])
        .current_dir(&tree)
        .stdin(Stdio::from(names))
        .stdout(Stdio::from(archive)))?;
    let status = find.wait()?;
    ensure!(status.success(), "find ended with {status}");
    Ok(image)
}

/// Fetches a small Debian from the mirror of this machine's packages.
fn debian(folder: &Path, place: &Path) -> Result<()> {
    let release = fs::read_to_string("/etc/os-release")?;
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("this machine is no Debian")?
        .trim_matches('"');
    let mut command = Command::new("mmdebstrap");
    command.args(["--quiet", "--variant=essential", "--include", INCLUDED]);
    command.arg("--customize-hook=rm -rf \"$1\"/usr/share/locale \"$1\"/usr/share/i18n");
    command.arg(format!("--aptopt={}", apt_options(folder)?.display()));
    command.args([name]).arg(place);
    for list in [
        "/etc/apt/sources.list",
        "/etc/apt/sources.list.d/debian.sources",
    ] {
        if Path::new(list).exists() {
            command.arg(list);
        }
    }
    run(&mut command)
}

/// Installs the modules where modprobe(8) looks for them.
fn modules(kernel: &Path, tree: &Path) -> Result<()> {
    let release = release(kernel)?;
    let place = tree.join("usr/lib/modules").join(&release);
    for part in MODULES {
        put_all(
            &kernel.join("kernel").join(part),
            &place.join("kernel").join(part),
        )?;
    }
    for list in ["modules.builtin", "modules.order"] {
        put(&kernel.join(list), &place.join(list), 0o644)?;
    }
    run(Command::new("chroot").arg(tree).args(["depmod", &release]))
}

/// Returns the release of a kernel: the name of the folder that it was fetched into.
fn release(kernel: &Path) -> Result<String> {
    let folder = kernel.canonicalize()?;
    let name = folder.file_name().context("the kernel's folder")?;
    Ok(name.to_string_lossy().into_owned())
}

/// Writes a file with the download options of this machine's apt, for another apt.
pub fn apt_options(folder: &Path) -> Result<PathBuf> {
    let options = text(Command::new("apt-config").arg("dump"))?;
    let options: String = options
        .lines()
        .filter(|line| line.starts_with("Acquire::"))
        .fold(String::new(), |all, line| all + line + "\n");
    let file = folder.join("apt.conf");
    fs::write(&file, options)?;
    Ok(file)
}
