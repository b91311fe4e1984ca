#include "controller/wire/encoded_message.h"

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "common/parsed_size.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

constexpr size_t kNotWeighed = 64 << 10;

using Traits = grpc::SerializationTraits<google::protobuf::MessageLite>;

}  // namespace

grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer encoded;
  bool is_own = false;
  const grpc::Status status = Traits::Serialize(message, &encoded, &is_own);
  PACELINE_CHECK(status.ok()) << status.error_message();
  return encoded;
}

grpc::Status DecodeRequest(const grpc::ByteBuffer& encoded,
                           google::protobuf::MessageLite* request) {
  grpc::ByteBuffer read = encoded;  // Reading empties a buffer.
  if (Traits::Deserialize(&read, request).ok()) return grpc::Status::OK;
  return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "REQUEST_MALFORMED",
                   absl::StrCat("the request is no ", request->GetTypeName()));
}

grpc::Status DecodeWeighed(const grpc::ByteBuffer& encoded, size_t most,
                           google::protobuf::Message* message) {
  if (encoded.Length() > kNotWeighed) {
    grpc::ByteBuffer weighed = encoded;  // A reader may change the buffer that it reads.
    grpc::ProtoBufferReader bytes(&weighed);
    if (ParsedSize(*message->GetDescriptor(), &bytes, most) > most) {
      return MakeError(grpc::StatusCode::RESOURCE_EXHAUSTED, "MESSAGE_TOO_LARGE",
                       absl::StrCat("a message of ", encoded.Length(), " bytes takes more than ",
                                    most, " in memory"));
    }
  }
  return DecodeRequest(encoded, message);
}

}  // namespace paceline
