// How much memory a message of Protocol Buffers takes once it is parsed, told by its bytes alone:
// two of them can be an entry that takes hundreds. What comes from a peer that is not trusted is
// weighed before it is parsed.
//
// Pure.
#ifndef COMMON_PARSED_SIZE_H_
#define COMMON_PARSED_SIZE_H_

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/zero_copy_stream.h>

#include <cstddef>

namespace paceline {

// In bytes, rounded up: fields, texts, entries of lists, and what the type does not know. Counting
// stops above `limit`, and at what no parser takes.
size_t ParsedSize(const google::protobuf::Descriptor& type,
                  google::protobuf::io::ZeroCopyInputStream* encoded, size_t limit);

}  // namespace paceline

#endif  // COMMON_PARSED_SIZE_H_
