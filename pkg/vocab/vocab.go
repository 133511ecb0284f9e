// Package vocab is the closed vocabulary of definitions, cases and documents.
// Lists are in the order of plans and tables.
package vocab

// Vendors of devices.
const (
	NVIDIA = "nvidia"
	AMD    = "amd"
	Host   = "host"
)

// Vendors lists the vendors of devices.
var Vendors = List("vendor", NVIDIA, AMD, Host)

// StoreTCP is the store that the shard serves over TCP. The other kind is files.
const StoreTCP = "tcp"

// Scopes of a group of ranks: inside one scale-up domain, or over several.
const (
	ScopeUp  = "scale-up"
	ScopeOut = "scale-out"
)

// Scopes lists the scopes of a group of ranks.
var Scopes = List("scope", ScopeUp, ScopeOut)
