// Messages of protobuf's text format, for tests.
#ifndef CLI_TESTING_PARSED_H_
#define CLI_TESTING_PARSED_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace paceline {

template <typename Message>
Message Parsed(const std::string& text) {
  Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

}  // namespace paceline

#endif  // CLI_TESTING_PARSED_H_
