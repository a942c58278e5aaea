//! Dying and stopping between two named steps of the engine. Builds without the feature `points`
//! refuse orders that need it.

/// Whether this build can stop at named points.
pub const ARE_BUILT: bool = cfg!(feature = "points");

/// Ends the program if it was built without named points, which `what` needs.
pub fn require(what: &str) {
    if !ARE_BUILT {
        eprintln!("{what} needs a build with the named points: cargo build --features points");
        std::process::exit(2);
    }
}

/// Makes this thread follow its orders at named points.
#[cfg(not(feature = "points"))]
pub fn arm(_board: &crate::board::Board, _row: usize, orders: &crate::worker::Orders) {
    if orders.die_one_in != 0 || orders.at.is_some() {
        require("this order");
    }
}

#[cfg(feature = "points")]
pub use armed::arm;

/// Makes this process believe that the machine was restarted since the last call.
pub fn pretend_next_boot() {
    require("a pretended boot");
    #[cfg(feature = "points")]
    {
        use std::sync::atomic::{AtomicU64, Ordering};
        static BOOTS: AtomicU64 = AtomicU64::new(1);
        // All bits differ as in random numbers.
        let boot = BOOTS.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        tuckbox_arena::hooks::pretend_boot(boot);
    }
}

#[cfg(feature = "points")]
mod armed {
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::Arc;

    use tuckbox_arena::hooks::{self, Point};
    use tuckbox_testkit::process::signal_myself;
    use tuckbox_testkit::shared::SharedWords;

    use crate::board::{Board, Flag, RowWord};
    use crate::worker::Orders;

    /// What happens at a point.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum Deed {
        /// The process is killed.
        Kill,
        /// The process is stopped.
        Stop,
        /// Only the thread waits, until the board says that it may go on.
        Hold,
    }

    /// Parses text such as "stop:RewriteHalf". None if it has another form.
    fn parse(text: &str) -> Option<(Deed, &str)> {
        let (deed, point) = text.split_once(':')?;
        let deed = match deed {
            "kill" => Deed::Kill,
            "stop" => Deed::Stop,
            "hold" => Deed::Hold,
            _ => return None,
        };
        Some((deed, point))
    }

    /// Makes this thread follow its orders at named points.
    pub fn arm(board: &Board, row: usize, orders: &Orders) {
        let words: Arc<SharedWords> = board.words();
        let reached = board.row_index(row, RowWord::Points);
        let mut random =
            fastrand::Rng::with_seed(orders.seed ^ orders.incarnation << 20 ^ row as u64);
        let die_one_in = orders.die_one_in;
        let mut at = orders.at.as_deref().map(|text| {
            let (deed, point) = parse(text).expect("the supervisor made the order");
            (deed, point.to_string())
        });
        if die_one_in == 0 && at.is_none() {
            return;
        }
        hooks::set(move |point: Point| {
            words.word(reached).fetch_or(1 << point as u64, SeqCst);
            if die_one_in != 0 && random.u64(..die_one_in) == 0 {
                signal_myself(libc::SIGKILL);
            }
            if at.as_ref().is_some_and(|(_, name)| *name == format!("{point:?}")) {
                let (deed, _) = at.take().expect("it was just looked at");
                match deed {
                    Deed::Kill => signal_myself(libc::SIGKILL),
                    // A stop takes effect when the thread returns from this system call. The
                    // process goes on from here when it is continued.
                    Deed::Stop => signal_myself(libc::SIGSTOP),
                    Deed::Hold => {
                        words.word(Board::flag_index(Flag::Holding)).store(1, SeqCst);
                        while words.word(Board::flag_index(Flag::Release)).load(SeqCst) == 0 {
                            std::thread::sleep(std::time::Duration::from_millis(1));
                        }
                    }
                }
            }
        });
    }
}
