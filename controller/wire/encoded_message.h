// Messages as the bytes that gRPC sends and has received. The copies of a grpc::ByteBuffer share
// its bytes, also between threads: what goes to many is encoded once.
#ifndef CONTROLLER_WIRE_ENCODED_MESSAGE_H_
#define CONTROLLER_WIRE_ENCODED_MESSAGE_H_

#include <google/protobuf/message.h>
#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstddef>

namespace paceline {

// As gRPC would.
grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message);

// INVALID_ARGUMENT, reason REQUEST_MALFORMED: the bytes are no such message.
grpc::Status DecodeRequest(const grpc::ByteBuffer& encoded, google::protobuf::MessageLite* request);

// The same of a message that may come from an enemy. RESOURCE_EXHAUSTED, reason MESSAGE_TOO_LARGE,
// and nothing is parsed: it would take more than `most` bytes of memory (common/parsed_size.h). One
// of less than 64 KiB is not weighed: it takes some megabytes at the worst.
grpc::Status DecodeWeighed(const grpc::ByteBuffer& encoded, size_t most,
                           google::protobuf::Message* message);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_ENCODED_MESSAGE_H_
