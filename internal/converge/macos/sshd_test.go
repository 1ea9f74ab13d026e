package macos

import "testing"

func TestListenAddress(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"nothing said", "", "127.0.0.1:22"},
		{"all addresses", "port 22\nlistenaddress [::]:22\nlistenaddress 0.0.0.0:22\n", "127.0.0.1:22"},
		{"another port", "port 2222\nlistenaddress 0.0.0.0:2222\n", "127.0.0.1:2222"},
		{"one address", "port 22\nlistenaddress 10.0.0.7:2200\n", "10.0.0.7:2200"},
		{"one of two", "listenaddress here 192.0.2.4:22\n", "192.0.2.4:22"},
		{"no port", "listenaddress 192.0.2.4:0\n", "127.0.0.1:22"},
		{"rubbish", "port many\nlistenaddress here\n", "127.0.0.1:22"},
	}
	for _, tt := range tests {
		if got := listenAddress(parseSSHD(tt.text)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
