// The config.json beside a Llama's weights, which tells Hugging Face's LlamaForCausalLM what to
// build. Names are those of its LlamaConfig.
#ifndef COMMON_EXPORT_LLAMA_CONFIG_H_
#define COMMON_EXPORT_LLAMA_CONFIG_H_

#include <string>

#include "common/export/float_format.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// Requires: the spec's model is a llama, with all defaults filled in.
std::string LlamaConfigJson(const v1::JobSpec& spec, FloatFormat floats);

}  // namespace paceline

#endif  // COMMON_EXPORT_LLAMA_CONFIG_H_
