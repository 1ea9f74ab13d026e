package doctor

// Question is something about macOS that no look answers.
type Question struct {
	ID       string `json:"id"`
	Question string `json:"question"`
	// Answer says how to find out, and what not to do it on.
	Answer string `json:"howToFindOut"`
}

// Questions are what was open about macOS when this was written. Each takes a Mac
// that may be broken, or an experiment.
func Questions() []Question {
	return []Question{
		{"R1", "After how many wrong passwords is the account locked, for how long, and does a reboot end it?", "With a throw-away user on a Mac in a lab; read `pwpolicy -getaccountpolicies`. Never on a Mac of a fleet."},
		{"R2", "Does a locked account refuse SSH logins with a key, too?", "As R1, with a second session open."},
		{"R3", "Does `pfctl -F Tables` remove a table that persists, and does loading an anchor twice make it busy?", "In an anchor of your own."},
		{"R4", "Does the start of a guest rewrite the main ruleset, and is com.apple/000.macfleet still called then?", "Compare `pfctl -s rules` before, at and after the first guest."},
		{"R5", "Does `pfctl -f /etc/pf.conf` end the NAT of running guests?", "In a lab only."},
		{"R6", "Does an `in` rule on the guests' bridge block, where an `out` rule on the uplink does not?", "From inside a guest that may fail."},
		{"R7", "What of IPv6 does a guest reach?", "From inside a guest."},
		{"R8", "Which acts grow the database of background items, and when does launchd stop starting jobs again?", "With a label of your own: register it a hundred times and look at the size of the file."},
		{"R9", "Which codes and delays does launchctl have for labels that are leaving or disabled, by release?", "With a label of your own."},
		{"R10", "Is a program killed whose file was overwritten in place, and one that was renamed into place not?", "With two tiny programs."},
		{"R11", "Does automatic login work after a cold boot without a screen, and when is the password sealed?", "Reboot three times."},
		{"R12", "Can guests start from a daemon of the console user, with and without a session?", "Boot a tiny guest each way."},
		{"R13", "Are the licence's slots given back when a guest shuts itself down?", "Start and stop one in a loop."},
		{"R14", "Do `systemsetup -setremotelogin` and `launchctl` on the SSH job need Full Disk Access?", "Read, and write what is there already."},
		{"R15", "Does the first drop-in of sshd win, and is a key outside the files that it names refused?", "From a second connection, with the fleet's key and with another of the vendor's project."},
		{"R16", "Are the host keys of the vendor's image made anew at each installation?", "Compare fingerprints across a fleet."},
		{"R17", "Do the login keychain and the secure token follow a changed password?", "In a lab."},
		{"R18", "Do the settings against screen saver and lock hold for a day?", "Look at the age of the session."},
		{"R19", "What does a guest see when the quota of its volume is reached?", "Fill it."},
		{"R20", "Are lines lost when newsyslog rotates?", "Force a rotation."},
		{"R21", "Which helpers of a guest need the permission for the local network?", "Reach a guest from each."},
		{"R22", "Can kern.bootsessionuuid be read without root?", "The doctor tries: see check `boots`."},
		{"R23", "How long do reboots take, and how long is SSH away after the vendor says ready?", "Keep the times."},
		{"R24", "What of this installation outlives an update of macOS?", "Run the doctor before and after."},
		{"R25", "Does an unpacked application carry a quarantine mark?", "See check `tart`."},
		{"R26", "Do two guests on one bridge see each other's switched frames, although the packet filter keeps their packets apart?", "Start two guests of your own on a Mac in a lab. In the one run `sudo tcpdump -eni en0 ether host <the other's MAC address>`, from the other ping the first, then another host, then broadcast. Packets between other guests must not show, and neither must pings that the firewall drops."},
		{"R27", "Does `launchctl bootout` end Screen Sharing while System Integrity Protection is on, does Apple's kickstart tool turn Remote Management off without a profile, and is the vendor's port for VNC closed then?", "See check `screen-sharing` after converge; then try the vendor's VNC address from outside."},
		{"R28", "Does the packet filter's rule for `flags S/SA` on a block drop new connections only, and does what leaves as UDP get its answers?", "From another machine, connect to a port that something listens on, before and after `pfctl -a com.apple/000.macfleet -s rules` shows the rules; look up a name on the Mac meanwhile."},
	}
}
