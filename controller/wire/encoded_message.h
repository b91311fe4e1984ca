// Messages as the bytes that gRPC sends and receives. Copies of a grpc::ByteBuffer share its bytes,
// even between threads, so what goes to many is encoded only once.
#ifndef CONTROLLER_WIRE_ENCODED_MESSAGE_H_
#define CONTROLLER_WIRE_ENCODED_MESSAGE_H_

#include <google/protobuf/message.h>
#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstddef>

namespace paceline {

// Encodes as gRPC would.
grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message);

// INVALID_ARGUMENT, reason REQUEST_MALFORMED, if the bytes are no such message.
grpc::Status DecodeRequest(const grpc::ByteBuffer& encoded, google::protobuf::MessageLite* request);

// The same for a message that may come from an attacker. RESOURCE_EXHAUSTED, reason
// MESSAGE_TOO_LARGE, without parsing, if it would take more than `most` bytes of memory
// (common/parsed_size.h). Messages below 64 KiB are not weighed: they take some megabytes at the
// worst.
grpc::Status DecodeWeighed(const grpc::ByteBuffer& encoded, size_t most,
                           google::protobuf::Message* message);

}  // namespace paceline

#endif  // CONTROLLER_WIRE_ENCODED_MESSAGE_H_
