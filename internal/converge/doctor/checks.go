package doctor

// checks are all checks after the first, in the order in which people read them.
func checks() []check {
	return []check{
		{id: "hardware", title: "Apple silicon, no guest", look: hardware},
		{id: "filevault", title: "FileVault is off", look: fileVault},
		{id: "integrity", title: "System Integrity Protection is on", look: integrity},
		{id: "gatekeeper", title: "Gatekeeper is on", look: gatekeeper},
		{id: "disk", title: "Room on the disk", look: disk},
		{id: "time", title: "The clock is kept", look: timeKept},
		{id: "modes", title: "Owners and modes of files that matter", root: true, look: modes},
		{id: "sudo", title: "What runs as root without a password", root: true, look: sudoRules},
		{id: "sshd", title: "The SSH server's settings", question: "R15", root: true, look: sshdSettings},
		{id: "ssh-answers", title: "The SSH server answers", question: "R14", look: sshAnswers},
		{id: "keys", title: "Keys that may log in", look: authorizedKeys},
		{id: "screen-sharing", title: "Nobody shares the screen", question: "R27", look: screenSharing},
		{id: "listening", title: "Who listens on the network", look: listening},
		{id: "session", title: "The console session", question: "R12", look: consoleSession},
		{id: "auto-login", title: "Automatic login", question: "R11", root: true, look: autoLogin},
		{id: "keychain", title: "The login keychain", question: "R17", look: keychain},
		{id: "power", title: "It never sleeps and always comes back", question: "R18", look: power},
		{id: "updates", title: "It does not change itself", question: "R24", look: updates},
		{id: "agent-job", title: "The agent's job", question: "R9", look: agentJob},
		{id: "hostd-job", title: "hostd's job", question: "R9", look: hostdJob},
		{id: "background-items", title: "The database of background items", question: "R8", root: true, look: backgroundItems},
		{id: "firewall", title: "The firewall around guests", question: "R4", root: true, look: guestFirewall},
		{id: "foreign-rules", title: "Packet filter rules of others", question: "R3", root: true, look: foreignRules},
		{id: "dhcp", title: "Addresses for guests", look: dhcp},
		{id: "tart", title: "tart", question: "R25", look: tart},
		{id: "leftovers", title: "What other systems left behind", look: leftovers},
		{id: "certificate", title: "The node's certificate", root: true, look: certificate},
		{id: "api-server", title: "The API server can be reached", root: true, look: apiServer},
		{id: "boots", title: "This boot", question: "R22", look: boots},
		{id: "last-report", title: "The last run of converge", root: true, look: lastReport},
	}
}
