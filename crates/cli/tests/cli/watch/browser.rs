// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A browser for tests: Chromium, controlled by its DevTools protocol over two named pipes.
//! `--remote-debugging-pipe` uses descriptors 3 and 4; messages are JSON, each ended by a zero
//! byte.

use crate::namespace::Namespace;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A page in its own browser process, which ends with it.
pub struct Browser {
    process: Child,
    input: File,
    output: BufReader<File>,
    next: u64,
    session: Option<String>,
    _folder: TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Browser {
    /// Starts a browser in a namespace, with a screen of the given size in pixels.
    pub fn open(namespace: &Namespace, width: u32, height: u32) -> Self {
        let mut there = namespace.command("bash");
        there.args(["-c", "command -v chromium"]);
        let there = there.stdout(Stdio::null()).status().unwrap();
        assert!(
            there.success(),
            "chromium (package chromium) is not installed"
        );
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        namespace.run(&format!("mkfifo {} {}", path("in"), path("out")));
        let line = format!(
            "exec chromium --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
             --no-first-run --disable-extensions --disable-background-networking \
             --user-data-dir={} --remote-debugging-pipe \
             3<{} 4>{}",
            path("profile"),
            path("in"),
            path("out")
        );
        let mut command = namespace.command("bash");
        command.args(["-c", &line]).stderr(Stdio::null());
        let process = command.spawn().unwrap();
        let input = File::options().write(true).open(path("in")).unwrap();
        let output = BufReader::new(File::open(path("out")).unwrap());
        let mut browser = Self {
            process,
            input,
            output,
            next: 0,
            session: None,
            _folder: folder,
        };
        let target = browser.ask("Target.createTarget", &json!({ "url": "about:blank" }));
        let wanted = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.ask("Target.attachToTarget", &wanted);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.ask("Page.enable", &json!({}));
        // A real window has a minimum width above that of a telephone.
        let screen = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600,
        });
        browser.ask("Emulation.setDeviceMetricsOverride", &screen);
        browser
    }

    /// Sends a command and returns the result.
    pub fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.next += 1;
        let mut message = json!({ "id": self.next, "method": method, "params": parameters });
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).unwrap();
        loop {
            let mut bytes = Vec::new();
            self.output.read_until(0, &mut bytes).unwrap();
            assert_eq!(bytes.pop(), Some(0), "the browser ended at {method}");
            let answer: Value = serde_json::from_slice(&bytes).unwrap();
            if answer["id"] == self.next {
                assert!(answer["error"].is_null(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    /// Navigates to an address.
    pub fn go(&mut self, address: &str) {
        self.ask("Page.navigate", &json!({ "url": address }));
    }

    /// Returns the value of an expression on the page; a promise is awaited.
    pub fn value(&mut self, expression: &str) -> Value {
        let wanted =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let answer = self.ask("Runtime.evaluate", &wanted);
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    /// Waits at most 30 s until an expression is true.
    #[track_caller]
    pub fn until(&mut self, expression: &str) {
        let begin = Instant::now();
        while self.value(expression) != json!(true) {
            assert!(
                begin.elapsed() < Duration::from_secs(30),
                "{expression} is not so in {}",
                self.value("document.body.innerText")
            );
            sleep(Duration::from_millis(20));
        }
    }

    /// Returns the processor time of the page's thread in milliseconds, since `Performance.enable`
    /// with `threadTicks`.
    pub fn worked_ms(&mut self) -> f64 {
        let found = self.ask("Performance.getMetrics", &json!({}));
        let metrics = found["metrics"].as_array().unwrap();
        let task = metrics.iter().find(|one| one["name"] == "TaskDuration");
        task.unwrap()["value"].as_f64().unwrap() * 1000.0
    }

    /// Presses a key, such as `Tab` (9) or `Enter` (13), that enters the given text.
    pub fn press(&mut self, key: &str, code: u32, text: &str) {
        for kind in ["keyDown", "keyUp"] {
            let event = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
                "text": if kind == "keyDown" { text } else { "" },
            });
            self.ask("Input.dispatchKeyEvent", &event);
        }
    }
}
