# Of a FileDescriptorSet as text: PACELINE_NEEDS_ROW("/package.Service/Method") for each method, in
# the order of the files. Two spaces are one level (protoc --decode).
function text() { return substr($2, 2, length($2) - 2) }
/^  package: / { package = text() }
/^  service \{/ { in_service = 1 }
/^  \}/ { in_service = 0 }
in_service && /^    name: / { service = text() }
in_service && /^      name: / {
  printf "PACELINE_NEEDS_ROW(\"/%s.%s/%s\");\n", package, service, text()
}
