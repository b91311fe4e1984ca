# Writes proto/methods.h: the methods of all services of a FileDescriptorSet as text (protoc
# --decode), in the order of the files. Two spaces are one level.
function text() { return substr($2, 2, length($2) - 2) }
function message() { return substr($2, length(package) + 4, length($2) - length(package) - 4) }
function declare(name) {
  if (!(name in declared)) classes = classes "class " name ";\n"
  declared[name] = 1
}

BEGIN {
  print "// The methods of the services of proto/*.proto, of which methods.awk makes this header: how a"
  print "// caller names one (cli/rpc/client.h), and what the table of roles must have"
  print "// (controller/api/admission/access_table.cc)."
  print "#ifndef PROTO_METHODS_H_"
  print "#define PROTO_METHODS_H_"
}

/^  package: / { package = text() }
/^  service \{/ { in_service = 1 }
/^  \}/ { in_service = 0 }
in_service && /^    name: / { service = text() }
in_service && /^    method \{/ { streams = takes_stream = 0 }
in_service && /^      name: / { method = text() }
in_service && /^      input_type: / { input = message() }
in_service && /^      output_type: / { output = message() }
in_service && /^      client_streaming: true/ { takes_stream = 1 }
in_service && /^      server_streaming: true/ { streams = 1 }
in_service && /^    \}/ {
  path = "/" package "." service "/" method
  paths = paths " \\\n  X(\"" path "\")"
  if (takes_stream) next
  declare(input)
  declare(output)
  short = service
  sub(/Service$/, "", short)
  constants = constants sprintf("inline constexpr %s<v1::%s, v1::%s> k%s%s{\"%s\"};\n",
                                streams ? "StreamMethod" : "UnaryMethod", input, output, short,
                                method, path)
}

END {
  print "\nnamespace paceline::v1 {"
  printf "%s", classes
  print "}  // namespace paceline::v1"
  print "\nnamespace paceline {"
  print "\ntemplate <typename Request, typename Reply>"
  print "struct UnaryMethod {\n  const char* path;\n};"
  print "\n// The server answers with a stream."
  print "template <typename Request, typename Reply>"
  print "struct StreamMethod {\n  const char* path;\n};"
  print "\nnamespace methods {"
  printf "%s", constants
  print "}  // namespace methods"
  print "\n}  // namespace paceline"
  print "\n// X(path) for each, those whose callers send a stream included."
  print "#define PACELINE_FOR_EACH_METHOD(X)" paths
  print "\n#endif  // PROTO_METHODS_H_"
}
