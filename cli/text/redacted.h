// Removes secrets from text that is to be sent to others.
#ifndef CLI_TEXT_REDACTED_H_
#define CLI_TEXT_REDACTED_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

// Returns `text` with whatever looks like a secret replaced by "[removed]": values of names such as
// password, secret, token, api_key or credential; credentials in URLs and Authorization headers;
// keys in the forms of AWS, GitHub, Hugging Face and OpenAI; JSON Web Tokens; private keys in PEM.
// It may miss other secrets, so people should read the text before they send it.
std::string Redacted(absl::string_view text);

}  // namespace paceline

#endif  // CLI_TEXT_REDACTED_H_
