// How the controller treats requests that are too large, over real sockets.
#include "controller/api/admission/request_limits.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "controller/api/admission/access_table.h"
#include "controller/api/audit/audit.h"
#include "controller/testing/server_fixture.h"
#include "controller/wire/encoded_message.h"

namespace paceline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;
using ::testing::HasSubstr;

// A field of a request, after the fields of the messages that contain it.
using Path = std::vector<const FieldDescriptor*>;

// Methods that ask for a change, according to the table of roles.
std::vector<const MethodDescriptor*> Mutations() {
  std::vector<const MethodDescriptor*> mutations;
  for (const MethodRule& rule : MethodRules()) {
    const std::string name = absl::StrReplaceAll(rule.method.substr(1), {{"/", "."}});
    const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
    if (method != nullptr && IsAudited(*method->input_type())) mutations.push_back(method);
  }
  return mutations;
}

// Adds the paths of all texts, lists and maps in a message that lies at `above`.
void FindSizes(const Descriptor& message, Path& above, std::vector<Path>& found) {
  ASSERT_LT(above.size(), 16U) << message.full_name() << " is in itself";
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    above.push_back(&field);
    if (field.is_repeated() || field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      found.push_back(above);
    }
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      FindSizes(*field.message_type(), above, found);
    }
    above.pop_back();
  }
}

std::vector<Path> SizesOf(const MethodDescriptor& method) {
  Path above;
  std::vector<Path> found;
  FindSizes(*method.input_type(), above, found);
  return found;
}

std::unique_ptr<Message> NewRequest(const MethodDescriptor& method) {
  return std::unique_ptr<Message>(google::protobuf::MessageFactory::generated_factory()
                                      ->GetPrototype(method.input_type())
                                      ->New());
}

// The message that has the path's last field; each list on the way gets an entry.
Message* MakeWay(Message* message, const Path& path) {
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const auto* reflection = message->GetReflection();
    message = path[i]->is_repeated() ? reflection->AddMessage(message, path[i])
                                     : reflection->MutableMessage(message, path[i]);
  }
  return message;
}

void SetText(Message* request, const Path& path, const std::string& text) {
  Message* message = MakeWay(request, path);
  const auto* reflection = message->GetReflection();
  if (path.back()->is_repeated()) {
    reflection->AddString(message, path.back(), text);
  } else {
    reflection->SetString(message, path.back(), text);
  }
}

void AddEntry(Message* message, const FieldDescriptor& field, int i) {
  const auto* reflection = message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection->AddString(message, &field, "x");
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection->AddInt32(message, &field, 1);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection->AddInt64(message, &field, 1);
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      Message* entry = reflection->AddMessage(message, &field);
      if (!field.is_map()) return;
      // The keys of a map must differ.
      const FieldDescriptor* key = field.message_type()->map_key();
      return entry->GetReflection()->SetString(entry, key, absl::StrCat(i));
    }
    default:
      FAIL() << "no case for " << field.full_name();
  }
}

class RequestSizesTest : public ServerTest {
 protected:
  grpc::Status Ask(const MethodDescriptor& method, const Message& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const std::string name = absl::StrCat("/", method.service()->full_name(), "/", method.name());
    const grpc::ByteBuffer encoded = Encode(request);
    grpc::GenericStub stub(channel_);
    grpc::CompletionQueue queue;
    auto reader = stub.PrepareUnaryCall(&context, name, encoded, &queue);
    reader->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    reader->Finish(&reply, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    EXPECT_TRUE(queue.Next(&tag, &ok));
    return status;
  }

  // `what`: the field that is too large.
  void ExpectRefused(const MethodDescriptor& method, const Message& request,
                     const std::string& what) {
    const grpc::Status refused = Ask(method, request);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT)
        << method.full_name() << " " << what;
    EXPECT_THAT(refused.error_message(), HasSubstr(what + ": has ")) << method.full_name();
    EXPECT_NE(Reason(refused), "") << method.full_name() << " " << what;
  }

  grpc::Status Cancel(const std::string& job, const std::string& reason) {
    grpc::ClientContext context;
    v1::CancelJobRequest request;
    request.set_job(job);
    request.set_request_id("cancel");
    request.set_reason(reason);
    v1::Job reply;
    return jobs_->Cancel(&context, request, &reply);
  }
  grpc::Status Resume(const std::string& from) {
    grpc::ClientContext context;
    v1::ResumeJobRequest request;
    request.set_job("job-none");
    request.set_request_id("resume");
    request.set_from(from);
    v1::Job reply;
    return jobs_->Resume(&context, request, &reply);
  }
};

// Covers every method that changes something. One that fails here does not call
// CallLimits::AdmitMutation.
TEST_F(RequestSizesTest, EachTextOfEachMutationIsBounded) {
  const std::string text(2 * kMaxCsrBytes, 'x');
  int texts = 0;
  for (const MethodDescriptor* method : Mutations()) {
    for (const Path& path : SizesOf(*method)) {
      const FieldDescriptor& field = *path.back();
      if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
      const auto request = NewRequest(*method);
      SetText(request.get(), path, text);
      ExpectRefused(*method, *request, field.name() + (field.is_repeated() ? "[0]" : ""));
      ++texts;
    }
  }
  EXPECT_GT(texts, 70);
}

TEST_F(RequestSizesTest, EachListOfEachMutationIsBounded) {
  int lists = 0;
  for (const MethodDescriptor* method : Mutations()) {
    for (const Path& path : SizesOf(*method)) {
      const FieldDescriptor& field = *path.back();
      if (!field.is_repeated()) continue;
      const auto request = NewRequest(*method);
      Message* message = MakeWay(request.get(), path);
      for (int i = 0; i <= kMaxRequestItems; ++i) AddEntry(message, field, i);
      ExpectRefused(*method, *request, field.name());
      ++lists;
    }
  }
  EXPECT_GT(lists, 8);
}

TEST_F(RequestSizesTest, WhatIsAsLargeAsAllowedReachesItsMethod) {
  EXPECT_EQ(Reason(Cancel(std::string(kMaxRequestText, 'x'), "")), "JOB_NOT_FOUND");
  EXPECT_EQ(Reason(Cancel(std::string(kMaxRequestText + 1, 'x'), "")), "REQUEST_INVALID");
}

TEST_F(RequestSizesTest, TheReasonOfACancellationIsOneShortLine) {
  EXPECT_EQ(Reason(Cancel("job-none", "")), "JOB_NOT_FOUND");
  EXPECT_EQ(Reason(Cancel("job-none", std::string(500, 'x'))), "JOB_NOT_FOUND");
  for (const std::string& reason : {std::string(501, 'x'), std::string("a\nb"), std::string(" ")}) {
    const grpc::Status refused = Cancel("job-none", reason);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << reason;
    EXPECT_EQ(Reason(refused), "REQUEST_INVALID") << reason;
    EXPECT_THAT(refused.error_message(), HasSubstr("reason: ")) << reason;
  }
}

TEST_F(RequestSizesTest, AJobIsResumedFromAPlainPathOrACheckpointsName) {
  for (const std::string& from :
       {std::string(), std::string("digits/20"), std::string("/ckpt/job-1/step-1/"),
        "/" + std::string(4094, 'x')}) {
    EXPECT_EQ(Reason(Resume(from)), "JOB_NOT_FOUND") << from;
  }
  for (const std::string& from :
       {std::string("/ckpt/../etc"), "/" + std::string(4095, 'x'), std::string("/a\0b", 4)}) {
    const grpc::Status refused = Resume(from);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << from;
    EXPECT_EQ(Reason(refused), "REQUEST_INVALID") << from;
    EXPECT_THAT(refused.error_message(), HasSubstr("from: ")) << from;
  }
}

// The request is kept while the stream is open.
TEST_F(RequestSizesTest, WhatAStreamIsAskedForIsBounded) {
  grpc::ClientContext context;
  v1::StreamLogsRequest request;
  request.set_node(std::string(kMaxRequestText + 1, 'x'));
  const auto logs = jobs_->StreamLogs(&context, request);
  v1::LogChunk chunk;
  EXPECT_FALSE(logs->Read(&chunk));
  EXPECT_EQ(Reason(logs->Finish()), "REQUEST_INVALID");
}

TEST_F(RequestSizesTest, WhatIsWatchedIsBounded) {
  grpc::ClientContext context;
  v1::WatchJobsRequest request;
  request.set_job_id(std::string(kMaxRequestText + 1, 'x'));
  const auto watch = jobs_->Watch(&context, request);
  v1::JobEvent event;
  EXPECT_FALSE(watch->Read(&event));
  EXPECT_EQ(Reason(watch->Finish()), "REQUEST_INVALID");
}

}  // namespace
}  // namespace paceline
