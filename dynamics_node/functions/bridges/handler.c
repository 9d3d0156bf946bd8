/* `states` as a custom call of XLA on the CPU. All buffers have the same leading axes: those of the batch. */
#include "xla/ffi/api/c_api.h"

static int asked_for_version(XLA_FFI_CallFrame *frame)
{
  const XLA_FFI_Extension_Base *const extension = frame->extension_start;
  if (!extension || extension->type != XLA_FFI_Extension_Metadata) return 0;
  XLA_FFI_Metadata *const metadata = ((const XLA_FFI_Metadata_Extension *)extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  return 1;
}

XLA_FFI_Error *handler(XLA_FFI_CallFrame *frame)
{
  if (asked_for_version(frame)) return 0;
  const number *input[INPUTS + 1];
  number *output[OUTPUTS + 1];
  for (int i = 0; i < INPUTS; ++i) input[i] = ((XLA_FFI_Buffer *)frame->args.args[i])->data;
  for (int i = 0; i < OUTPUTS; ++i) output[i] = ((XLA_FFI_Buffer *)frame->rets.rets[i])->data;
  const XLA_FFI_Buffer *const first = frame->rets.rets[0];
  long count = 1;
  for (int64_t k = 0; k < first->rank - RANK; ++k) count *= first->dims[k];
  states(count, input, output);
  return 0;
}

/* What XLA calls on a GPU, for a function of another backend than cuda: an error. */
XLA_FFI_Error *on_a_gpu(XLA_FFI_CallFrame *frame)
{
  if (asked_for_version(frame)) return 0;
  XLA_FFI_Error_Create_Args error = {
      .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
      .message = "this function of dynamics_node can run on the CPU alone: build it with backend='cuda', "
                 "or call it under jax.default_device(jax.devices('cpu')[0]), with arrays there",
      .errc = XLA_FFI_Error_Code_UNIMPLEMENTED,
  };
  return frame->api->XLA_FFI_Error_Create(&error);
}
