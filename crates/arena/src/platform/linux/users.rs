//! What the machine's own lists say about users and groups. Must not know files.
//!
//! The lists are read as text. The C library would load further modules into this process and may
//! wait for another machine. A user who is not in the lists is unknown.

use std::fs::read_to_string;

/// Whether this process's user is the only member of a group: the private group that many systems
/// create with each user.
pub fn is_private_group(group: u32, user: u32) -> bool {
    let (users, groups) = (read_to_string("/etc/passwd"), read_to_string("/etc/group"));
    match (users, groups) {
        (Ok(users), Ok(groups)) => is_private(&users, &groups, group, user),
        _ => false,
    }
}

fn is_private(users: &str, groups: &str, group: u32, user: u32) -> bool {
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<u32>().ok());
    let mut name = None;
    for line in users.lines() {
        let mut fields = line.split(':');
        let found = fields.next();
        let (id, first_group) = (number(fields.nth(1)), number(fields.next()));
        match (id == Some(user), first_group == Some(group)) {
            (true, true) => name = found,
            (false, true) => return false,
            _ => {}
        }
    }
    let Some(name) = name else { return false };
    let mut lines = groups.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        (number(fields.next()) == Some(group)).then(|| fields.next().unwrap_or(""))
    });
    let Some(members) = lines.next() else { return false };
    // A number that two groups share is nobody's private group.
    lines.next().is_none() && members.split(',').all(|member| member.is_empty() || member == name)
}

#[cfg(test)]
mod tests {
    use super::is_private;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\n\
        ada:x:1000:1000::/home/ada:/bin/sh\n\
        bob:x:1001:1001::/home/bob:/bin/sh\n\
        eve:x:1002:100::/home/eve:/bin/sh\n\
        kim:x:1003:100::/home/kim:/bin/sh\n";
    const GROUPS: &str = "root:x:0:\nusers:x:100:\nada:x:1000:\nbob:x:1001:bob,ada\n";

    #[test]
    fn a_group_of_one_is_private() {
        assert!(is_private(USERS, GROUPS, 1000, 1000));
        assert!(is_private(USERS, &GROUPS.replace(":1000:", ":1000:ada"), 1000, 1000));
    }

    #[test]
    fn a_group_with_others_in_it_or_unknown_is_not() {
        for (group, user) in [(1001, 1001), (100, 1002), (1000, 1001), (5000, 1000), (0, 1000)] {
            assert!(!is_private(USERS, GROUPS, group, user), "{group} {user}");
        }
        assert!(!is_private(USERS, "users:x:100:\n", 1000, 1000));
        assert!(!is_private(USERS, &format!("{GROUPS}other:x:1000:bob\n"), 1000, 1000));
        assert!(!is_private("", "", 1000, 1000));
    }
}
