// Labels and descriptions of jobs over real sockets: choosing by them, and changing them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/testing/server_fixture.h"

namespace paceline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LabelsTest : public ServerTest {
 protected:
  // Submits a job of this name with the label; an empty key: without.
  std::string SubmitWith(const std::string& name, const std::string& key = "",
                         const std::string& value = "") {
    v1::JobSpec spec = Spec();
    spec.set_name(name);
    if (!key.empty()) (*spec.mutable_labels())[key] = value;
    v1::Job job;
    const grpc::Status status = Submit(spec, absl::StrCat("submit ", name), &job);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return job.id();
  }

  // Names of the jobs that match, from pages of one job each.
  std::vector<std::string> Chosen(const std::string& selector) {
    std::vector<std::string> names;
    v1::ListJobsRequest request;
    request.set_page_size(1);
    request.set_label_selector(selector);
    do {
      grpc::ClientContext context;
      v1::ListJobsResponse page;
      const grpc::Status status = jobs_->List(&context, request, &page);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const v1::Job& job : page.jobs()) names.push_back(job.spec().name());
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return names;
  }

  const std::unique_ptr<PlayedWorker> worker_ = Join(Hello("w0"));
};

TEST_F(LabelsTest, AListIsFilteredAndItsPagesAreWhole) {
  SubmitWith("old", "model", "llama");
  SubmitWith("bare");
  SubmitWith("new", "model", "llama");
  SubmitWith("other", "model", "resnet");
  EXPECT_THAT(Chosen(""), ElementsAre("other", "new", "bare", "old"));
  EXPECT_THAT(Chosen("model=llama"), ElementsAre("new", "old"));
  EXPECT_THAT(Chosen("model!=llama"), ElementsAre("other", "bare"));
  EXPECT_THAT(Chosen("!model"), ElementsAre("bare"));
  EXPECT_THAT(Chosen("model,model!=llama"), ElementsAre("other"));
  EXPECT_THAT(Chosen("team"), IsEmpty());
}

TEST_F(LabelsTest, WhatIsNoSelectorIsRefused) {
  grpc::ClientContext context;
  v1::ListJobsRequest request;
  request.set_label_selector("model in (llama)");
  v1::ListJobsResponse reply;
  const grpc::Status status = jobs_->List(&context, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Reason(status), "SELECTOR_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("KEY!=VALUE"));
}

TEST_F(LabelsTest, ImpossibleLabelsAreRefusedAtSubmit) {
  v1::JobSpec spec = Spec();
  (*spec.mutable_labels())["te am"] = "vision";
  v1::Job job;
  const grpc::Status status = Submit(spec, "r1", &job);
  EXPECT_EQ(Reason(status), "SPEC_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("labels has the key \"te am\""));
}

// Maps have no order on the wire.
TEST_F(LabelsTest, ARepeatedSubmitIsTheSameWhateverTheOrderOfItsLabels) {
  std::string first;
  for (int i = 0; i < 8; ++i) {
    v1::JobSpec spec = Spec();
    for (int k = 0; k < 20; ++k) (*spec.mutable_labels())[absl::StrCat("k", (k + i) % 20)] = "v";
    v1::Job job;
    const grpc::Status status = Submit(spec, "r1", &job);
    ASSERT_TRUE(status.ok()) << status.error_message();
    if (first.empty()) first = job.id();
    EXPECT_EQ(job.id(), first);
  }
}

}  // namespace
}  // namespace paceline
