//! The result of a run: figures, failures, and how they are printed.

use std::process::ExitCode;

use serde_json::{Map, Value};

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    what: String,
    figures: Map<String, Value>,
    failures: Vec<String>,
    trials: u64,
    trial_name: &'static str,
}

impl Report {
    /// An empty report about the run `what`.
    pub fn new(what: &str) -> Report {
        Report {
            what: what.into(),
            figures: Map::new(),
            failures: Vec::new(),
            trials: 0,
            trial_name: "trials",
        }
    }

    /// Adds a figure.
    pub fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.insert(name.into(), value.into());
    }

    /// Adds a failure.
    pub fn fail(&mut self, what: impl Into<String>) {
        self.failures.push(what.into());
    }

    /// Adds a failure unless `holds`.
    pub fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.fail(what());
        }
    }

    /// States how many independent trials the run made, and the name of a trial.
    pub fn trials(&mut self, count: u64, name: &'static str) {
        self.trials = count;
        self.trial_name = name;
    }

    /// Whether nothing has failed so far.
    pub fn is_good(&self) -> bool {
        self.failures.is_empty()
    }

    /// Prints a summary for people to standard error, and one line of JSON to standard output.
    /// Returns success if nothing failed.
    pub fn finish(mut self) -> ExitCode {
        let good = self.is_good();
        let mut summary =
            format!("torture {}: {}\n", self.what, if good { "good" } else { "FAILED" });
        for (name, value) in &self.figures {
            if !value.is_object() {
                summary += &format!("  {name:<28} {}\n", value.to_string().trim_matches('"'));
            }
        }
        if self.trials > 0 {
            let (count, name, failed) = (self.trials, self.trial_name, self.failures.len());
            summary += &format!("  {count} {name}, {failed} failures");
            if good {
                // The rule of three: the upper end of a 95 % interval when none of n failed.
                let most = 3.0 / count as f64;
                summary += &format!("; with 95 % confidence fewer than {most:.1e} of all fail");
            }
            summary += "\n";
        }
        for failure in self.failures.iter().take(40) {
            summary += &format!("  FAILED: {failure}\n");
        }
        eprint!("{summary}");
        self.figures.insert("run".into(), self.what.into());
        self.figures.insert("trials".into(), self.trials.into());
        self.figures.insert("trial".into(), self.trial_name.into());
        self.figures.insert("good".into(), good.into());
        self.figures.insert("failures".into(), self.failures.into());
        println!("{}", Value::Object(self.figures));
        ExitCode::from(u8::from(!good))
    }
}
