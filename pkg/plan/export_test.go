package plan

// Parse is for tests of matrices that no file holds.
var Parse = parse
