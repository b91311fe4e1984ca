// Estimates a protobuf message's memory after parsing, from its bytes alone: two bytes can be an
// entry that takes hundreds. Messages from untrusted peers are checked before parsing.
//
// Pure.
#ifndef COMMON_PARSED_SIZE_H_
#define COMMON_PARSED_SIZE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstddef>

namespace paceline {

// The size in bytes, rounded up: fields, texts, list entries, and unknown fields. Stops counting
// above `limit`, and at bytes that no parser accepts.
size_t ParsedSize(const google::protobuf::Descriptor& type,
                  google::protobuf::io::ZeroCopyInputStream* encoded, size_t limit);

}  // namespace paceline

#endif  // COMMON_PARSED_SIZE_H_
